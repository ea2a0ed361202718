package main

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func TestPlantedFaultsAreFound(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), analyzer, "shop")
}

func TestABrokenLockFileIsAnError(t *testing.T) {
	if _, err := headsOf("\tno pattern\n"); err == nil {
		t.Error("read")
	}
	if h, err := headsFor(t.TempDir()); err != nil || len(h) != 0 {
		t.Errorf("without a lock file: %v, %v", h, err)
	}
}

func TestTheTreeIsClean(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "../../..", Context: t.Context()}, "./...")
	if err != nil || len(pkgs) < 20 {
		t.Fatalf("%d packages, %v", len(pkgs), err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for act := range graph.All() {
		if act.Err != nil {
			t.Error(act.Err)
		}
		for _, d := range act.Diagnostics {
			t.Errorf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message)
		}
	}
}
