"""Campaigns that are linked to a Label Studio project, with two annotators."""

import pytest

from tests.campaign import Campaign, NewCampaign


@pytest.fixture
def campaign(new_campaign: NewCampaign) -> Campaign:
    """The sentiment task with an open round."""
    return new_campaign(label_studio=True)


@pytest.fixture
def qa_campaign(new_campaign: NewCampaign) -> Campaign:
    """The QA task with an open round."""
    return new_campaign("qa", label_studio=True)
