"""What Label Studio 1.23 knows: the tags that text templates use, their attributes and the values these take.

Label Studio itself lets unknown tags and attributes pass, and its editor then shows nothing or stops with an error.
Left out on purpose: what fetches from elsewhere (`apiUrl`, `resolver`, `valueType="url"`) and media tags.
"""

from collections.abc import Mapping
from types import MappingProxyType

_CONTROL = "name toName smart smartOnly"
_REQUIRED = "required requiredMessage"
_PER = "perRegion perItem displayMode"
_VISIBLE = "visibleWhen whenTagName whenLabelValue whenChoiceValue whenRole"
_RICH_TEXT = "name value valueType saveTextResult selectionEnabled highlightColor showLabels encoding granularity"
_LABELS = "choice maxUsages showInline opacity fillColor strokeColor strokeWidth fillOpacity allowEmpty value"

_TAGS = {
    "View": f"display style className idAttr {_VISIBLE}",
    "Style": "",
    "Header": "value size style underline",
    "Markdown": f"value style className idAttr {_VISIBLE}",
    "Collapse": "value size style accordion bordered open",
    "Panel": "value open",
    "Filter": "name toName placeholder minlength style hotkey casesensetive cleanup",
    "Text": _RICH_TEXT,
    "HyperText": f"{_RICH_TEXT} inline clickableLinks",
    "Paragraphs": "name value valueType saveTextResult layout nameKey textKey showLabels highlightColor contextScroll",
    "TextArea": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} value label placeholder maxSubmissions editable "
    "transcription skipDuplicates rows showSubmitButton allowSubmit",
    "Choices": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} choice showInline layout value allowNested",
    "Choice": "value alias selected style hotkey html hint color",
    "Taxonomy": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} labeling leafsOnly showFullPath pathSeparator maxUsages "
    "maxWidth minWidth dropdownWidth placeholder legacy value",
    "Rating": f"{_CONTROL} {_REQUIRED} {_PER} maxRating defaultValue size icon hotkey",
    "Number": f"{_CONTROL} {_REQUIRED} {_PER} min max step defaultValue slider hotkey",
    "DateTime": f"{_CONTROL} {_REQUIRED} {_PER} only format min max defaultValue hotkey",
    "Labels": f"{_CONTROL} {_LABELS}",
    "HyperTextLabels": f"{_CONTROL} {_LABELS}",
    "ParagraphLabels": f"{_CONTROL} {_LABELS}",
    "Label": "value alias selected maxUsages hint hotkey showAlias aliasStyle size background selectedColor "
    "granularity html category",
    "Shortcut": "value alias hotkey background",
    "Relations": "choice",
    "Relation": "value background",
}
TAGS: Mapping[str, frozenset[str]] = MappingProxyType({tag: frozenset(names.split()) for tag, names in _TAGS.items()})

OBJECT_TAGS = frozenset({"Text", "HyperText", "Paragraphs"})
# Tags whose own text, between the opening and the closing tag, is shown or used.
TEXT_TAGS = frozenset({"Style", "Header", "Markdown", "HyperText"})
# Where a tag has to stand to do anything.
PARENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Choice": ("Choices", "Taxonomy"),
        "Label": ("Labels", "HyperTextLabels", "ParagraphLabels"),
        "Relation": ("Relations",),
        "Panel": ("Collapse",),
        "Shortcut": ("TextArea",),
    }
)

# The editor stops with an error on any other value.
_TRUTH = (
    "required perRegion perItem smart smartOnly editable transcription skipDuplicates showSubmitButton allowSubmit "
    "showInline allowNested selected showAlias allowEmpty underline accordion bordered open cleanup casesensetive "
    "selectionEnabled showLabels inline clickableLinks contextScroll labeling leafsOnly showFullPath legacy slider"
)
TRUTH_VALUES = ("true", "false")
_VALUES = {
    **{f".{name}": TRUTH_VALUES for name in _TRUTH.split()},
    "Choices.choice": ("single", "single-radio", "multiple"),
    "Choices.layout": ("select", "inline", "vertical"),
    "Labels.choice": ("single", "multiple"),
    "Relations.choice": ("single", "multiple"),
    "Paragraphs.layout": ("none", "dialogue"),
    "Paragraphs.valueType": ("json",),
    ".valueType": ("text",),
    ".saveTextResult": ("none", "no", "yes"),
    ".encoding": ("none", "base64", "base64unicode"),
    ".granularity": ("symbol", "word", "sentence", "paragraph"),
    ".displayMode": ("tag", "region-list"),
    ".visibleWhen": ("region-selected", "no-region-selected", "choice-selected", "choice-unselected"),
}


def allowed_values(tag: str, attribute: str) -> tuple[str, ...] | None:
    """The values that an attribute takes, or None when any text will do."""
    return _VALUES.get(f"{tag}.{attribute}", _VALUES.get(f".{attribute}"))
