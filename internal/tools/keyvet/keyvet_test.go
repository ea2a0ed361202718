package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
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
