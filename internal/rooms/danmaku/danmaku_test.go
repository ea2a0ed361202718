package danmaku

import (
	"slices"
	"testing"
)

func TestARingHasWhatFliesAndAHundredAtMost(t *testing.T) {
	var r Ring[int]
	for i := range 150 {
		r.Add(int64(i), i)
	}
	if got := r.Recent(150); len(got) != MaxComments || got[0] != 50 || got[MaxComments-1] != 149 {
		t.Errorf("of 150 there are %d, %v", len(got), got)
	}
	if got := r.Recent(140 + Life); !slices.Equal(got, []int{141, 142, 143, 144, 145, 146, 147, 148, 149}) {
		t.Errorf("after ten seconds: %v", got)
	}
	r.Add(200+Life, 1)
	if got := r.Recent(200 + Life); !slices.Equal(got, []int{1}) {
		t.Errorf("what has flown came back: %v", got)
	}
	if r.Clear(); len(r.Recent(200+Life)) != 0 {
		t.Error("it was cleared")
	}
}
