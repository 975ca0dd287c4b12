"""YAML, read strictly."""

import yaml


class Strict(yaml.SafeLoader):
    """A key that is given twice is an error, not the last one's victory."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"given twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def parse(text):
    """All documents of a text."""
    return [document for document in yaml.load_all(text, Loader=Strict) if document is not None]


def read(path):
    """All documents of a file."""
    return parse(path.read_text())
