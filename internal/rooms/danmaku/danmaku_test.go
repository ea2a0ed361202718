package danmaku

import (
	"slices"
	"testing"
)

func TestRing_HasRecentCommentsUpToItsLimit(t *testing.T) {
	var r Ring[int]
	for i := range 150 {
		r.Add(int64(i), i)
	}
	if got := r.Recent(150); len(got) != MaxComments || got[0] != 50 || got[MaxComments-1] != 149 {
		t.Errorf("after 150 comments: got %d, %v, want the latest 100", len(got), got)
	}
	if got := r.Recent(140 + Life); !slices.Equal(got, []int{141, 142, 143, 144, 145, 146, 147, 148, 149}) {
		t.Errorf("after ten seconds: %v", got)
	}
	r.Add(200+Life, 1)
	if got := r.Recent(200 + Life); !slices.Equal(got, []int{1}) {
		t.Errorf("got expired comments: %v", got)
	}
	if r.Clear(); len(r.Recent(200+Life)) != 0 {
		t.Error("got comments after Clear, want none")
	}
}
