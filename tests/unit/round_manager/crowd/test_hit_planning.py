"""What a HIT says of itself is what its worker will do."""

import pytest

from crowd.profile import CrowdLimits
from round_manager.crowd.hit_planning import terms_of
from round_manager.models import HitKind
from templates import find_pack


@pytest.mark.parametrize("name", ["sentiment", "nli", "qa", "hate_speech"])
def test_every_kind_of_hit_has_its_own_description(name: str) -> None:
    spec = find_pack(name).spec
    told = {kind: terms_of(spec, kind, None, CrowdLimits()).description for kind in HitKind}
    assert told[HitKind.CREATE] == spec.description
    assert len(set(told.values())) == len(HitKind)
    assert f"up to {spec.work.validations_per_hit} of them" in told[HitKind.VALIDATE]
    assert "pays the same whether you pass or not" in told[HitKind.QUIZ]
    assert ("select each answer" in told[HitKind.VALIDATE]) == (spec.kind == "qa")


def test_a_long_description_is_truncated_to_the_marketplaces_limit() -> None:
    spec = find_pack("sentiment").spec.model_copy(update={"description": "long " * 1_000})
    assert len(terms_of(spec, HitKind.CREATE, None, CrowdLimits()).description) == CrowdLimits().description_length
