package keyspace

import (
	"fmt"
	"testing"
)

var sign = Def2[id, Int](New("bench"), "user:sign:{{uid}}:{year}", BitmapOf("days"), hour, Doc{})

func BenchmarkAt(b *testing.B) {
	b.ReportAllocs()
	var k Bitmap
	for b.Loop() {
		k = sign.At(someone, Int{2026})
	}
	_ = k
}

// BenchmarkSprintf measures the alternative to At.
func BenchmarkSprintf(b *testing.B) {
	b.ReportAllocs()
	var s string
	for b.Loop() {
		s = fmt.Sprintf("user:sign:{%s}:%d", someone.s, 2026)
	}
	_ = s
}

func BenchmarkAtText(b *testing.B) {
	f := Def1[name](New("bench"), "playback:{title}", CounterKind(), hour, Doc{})
	title := name{"holiday in Århus, part 2"}
	b.ReportAllocs()
	for b.Loop() {
		f.At(title)
	}
}

func BenchmarkParse(b *testing.B) {
	key := sign.At(someone, Int{2026}).String()
	b.ReportAllocs()
	for b.Loop() {
		parser.Key(key)
	}
}
