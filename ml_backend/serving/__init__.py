"""Serving: the Label Studio ML backend, from a predict call to the sentence that an annotator reads."""
