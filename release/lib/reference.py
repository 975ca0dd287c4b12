"""Prints a page of the services, messages and enums in the descriptor set on standard input, with their comments."""

import sys

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

PACKAGE = "idempotency.ledger.v1"
# The numbers of fields in a descriptor by which its source paths go.
MESSAGES, ENUMS, SERVICES, FIELDS, NESTED, NESTED_ENUMS, METHODS, VALUES = 4, 5, 6, 2, 3, 4, 2, 2
SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


class Page:
    def __init__(self, file):
        self.comments = {tuple(one.path): one.leading_comments.strip() for one in file.source_code_info.location}

    def comment(self, *path):
        """In one paragraph for each that the source has."""
        return "\n".join(line.removeprefix(" ") for line in self.comments.get(path, "").splitlines())

    def cell(self, *path):
        return " ".join(self.comment(*path).split()).replace("|", "\\|")


def kind(field):
    name = field.type_name.removeprefix(f".{PACKAGE}.").removeprefix(".") or SCALARS[field.type]
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def message(page, one, path, prefix=""):
    name = prefix + one.name
    if one.options.map_entry:
        return
    print(f"\n### {name}\n\n{page.comment(*path)}\n")
    if one.field:
        print("| field | number | type | what it is |\n| --- | --- | --- | --- |")
        for place, field in enumerate(one.field):
            print(f"| `{field.name}` | {field.number} | `{kind(field)}` | {page.cell(*path, FIELDS, place)} |")
    for place, nested in enumerate(one.nested_type):
        message(page, nested, (*path, NESTED, place), f"{name}.")
    for place, nested in enumerate(one.enum_type):
        enum(page, nested, (*path, NESTED_ENUMS, place), f"{name}.")


def enum(page, one, path, prefix=""):
    print(f"\n### {prefix}{one.name}\n\n{page.comment(*path)}\n\n| value | number | what it is |\n| --- | --- | --- |")
    for place, value in enumerate(one.value):
        print(f"| `{value.name}` | {value.number} | {page.cell(*path, VALUES, place)} |")


def main():
    files = FileDescriptorSet.FromString(sys.stdin.buffer.read()).file
    own = [file for file in files if file.package == PACKAGE]
    if not own:
        raise SystemExit(f"reference: the descriptors have no file of {PACKAGE}")
    print(f"# {PACKAGE}")
    for file in own:
        page = Page(file)
        for place, service in enumerate(file.service):
            print(f"\n## {service.name}\n\n{page.comment(SERVICES, place)}")
            for number, method in enumerate(service.method):
                takes, gives = (name.rpartition(".")[2] for name in (method.input_type, method.output_type))
                stream = ["stream " if flag else "" for flag in (method.client_streaming, method.server_streaming)]
                print(f"\n### {method.name}({stream[0]}{takes}) returns ({stream[1]}{gives})\n\n"
                      f"{page.comment(SERVICES, place, METHODS, number)}")
        print(f"\n## Messages of {file.name}")
        for place, one in enumerate(file.message_type):
            message(page, one, (MESSAGES, place))
        for place, one in enumerate(file.enum_type):
            enum(page, one, (ENUMS, place))


if __name__ == "__main__":
    main()
