package ledger

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every exported name has a comment: go doc shows what it is.
func TestEveryExportedNameIsDocumented(t *testing.T) {
	folders := []string{".", "guard", "ledgerhttp", "brokers"}
	adapters, err := filepath.Glob("*ledger/go.mod") // Separate modules.
	if err != nil {
		t.Fatal(err)
	}
	for _, adapter := range adapters {
		folders = append(folders, filepath.Dir(adapter))
	}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		found, err := doc.NewFromFiles(set, files, filepath.ToSlash(filepath.Join("ledger", folder)))
		if err != nil {
			t.Fatal(err)
		}
		undocumented(t, found)
	}
}

func undocumented(t *testing.T, found *doc.Package) {
	t.Helper()
	need := func(name, text string) {
		if text == "" && ast.IsExported(name) {
			t.Errorf("%s.%s has no comment", found.Name, name)
		}
	}
	need("Package", found.Doc)
	funcs := found.Funcs
	for _, each := range found.Types {
		need(each.Name, each.Doc)
		funcs = append(append(funcs, each.Funcs...), each.Methods...)
		fields(need, each)
		for _, value := range append(each.Consts, each.Vars...) {
			values(need, value)
		}
	}
	for _, each := range funcs {
		need(each.Name, each.Doc)
	}
	for _, value := range append(found.Consts, found.Vars...) {
		values(need, value)
	}
}

func fields(need func(name, text string), each *doc.Type) {
	for _, spec := range each.Decl.Specs {
		shape, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range shape.Fields.List {
			for _, name := range field.Names {
				need(name.Name, field.Doc.Text())
			}
		}
	}
}

// values looks at each name of a group, whose comment may be that of the group.
func values(need func(name, text string), group *doc.Value) {
	for _, spec := range group.Decl.Specs {
		value := spec.(*ast.ValueSpec)
		for _, name := range value.Names {
			text := value.Doc.Text()
			if len(group.Decl.Specs) == 1 {
				text += group.Doc
			}
			need(name.Name, text)
		}
	}
}
