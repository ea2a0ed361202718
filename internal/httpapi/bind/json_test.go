package bind

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestBody_TakesWholeNumbersInAnyForm(t *testing.T) {
	type body struct {
		Count int64   `json:"count"`
		Part  float64 `json:"part"`
		Name  string  `json:"name"`
	}
	for text, want := range map[string]body{
		`{"count":40.0}`: {Count: 40},
		`{"count":1.234e3,"part":1.5,"name":"1.0 \"2.0"}`: {Count: 1234, Part: 1.5, Name: `1.0 "2.0`},
		`{"count":-12E+2}`:                   {Count: -1200},
		`{"count":9007199254740993.0}`:       {Count: 9007199254740993},
		`{"count":0.9223372036854775807e19}`: {Count: 9223372036854775807},
		`{"count":-0.0}`:                     {},
	} {
		var got body
		if err := Fill([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{`1.5`, `15e-1`, `1.00000000000000000001`, `9223372036854775808.0`, `1e19`, `1e-400000000`,
		`0.` + strings.Repeat("0", 100)} {
		if err := Fill([]byte(`{"count":`+text+`}`), new(body)); err == nil {
			t.Errorf("%s was accepted as a whole number", text)
		}
	}
}

// Decode refuses exactly invalid JSON, duplicate names and NUL.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"a":2}`, `[1,2,{"b":null}]`, `{"a":"\ud800"}`, `1 2`, `{"a":1}}`, `[`, `]`, `{"a"`, `{"a":}`,
		`nul`, "\xff",
		`{"":[]}`, `[,]`, `{,}`, `"x"`, `{":\\":":","\\\"":{":":1}}`, `{"a":{"b":1},"a":{"b":1}}`, `{"a":1,"\u0061":1}`, `1e999`, `["\u0000"]`,
		`["\\u0000"]`, `{"\u0000":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Decode(data)
		if errors.Is(err, errNUL) {
			if !bytes.Contains(data, []byte(`\u0000`)) {
				t.Errorf("%q: found a NUL", data)
			}
			return
		}
		var plain any
		if wrong := json.Unmarshal(data, &plain); wrong != nil || err != nil && !errors.Is(err, errDuplicate) {
			if wrong == nil || err == nil {
				t.Errorf("%q: got %v, encoding/json says %v", data, err, wrong)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		if got, want := err != nil, twice(t, d); got != want {
			t.Errorf("%q: found a duplicate %v, want %v", data, got, want)
		}
	})
}

// twice is a slow and obvious search for duplicate names in the next value.
func twice(t *testing.T, d *json.Decoder) (found bool) {
	token := func() json.Token {
		v, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	switch token() {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			name := token().(string)
			found = seen[name] || found
			seen[name] = true
			found = twice(t, d) || found
		}
		token()
	case json.Delim('['):
		for d.More() {
			found = twice(t, d) || found
		}
		token()
	}
	return found
}
