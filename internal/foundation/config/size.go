package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written "64KiB", "10MB", "1.5GiB" or just "4096".
// KiB, MiB, GiB and TiB are powers of 1,024; kB, MB, GB and TB of 1,000. Upper
// and lower case, and the final B, do not matter.
type Size int64

var units = []struct {
	name  string
	bytes float64
}{ // longer names first: "kib" also ends in "b"
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"ki", 1 << 10}, {"mi", 1 << 20}, {"gi", 1 << 30}, {"ti", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12},
	{"b", 1}, {"", 1},
}

// UnmarshalText parses a size.
func (s *Size) UnmarshalText(text []byte) error {
	low := strings.ToLower(strings.TrimSpace(string(text)))
	for _, u := range units {
		number, ok := strings.CutSuffix(low, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		n *= u.bytes
		if err != nil || n < 0 || n >= math.MaxInt64 || n != math.Trunc(n) {
			break
		}
		*s = Size(n)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 64KiB or 10MB", text)
}

// String returns the size in the largest binary unit that needs no fraction.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if unit := int64(1) << (10 * (i + 1)); s != 0 && int64(s)%unit == 0 {
			return strconv.FormatInt(int64(s)/unit, 10) + []string{"KiB", "MiB", "GiB", "TiB"}[i]
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
