package civil

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func daysIn(year int) int { return int(DayOf(year+1, 1, 1) - DayOf(year, 1, 1)) }

func TestDayIsADateWithoutAZone(t *testing.T) {
	for _, tt := range []struct {
		date   string
		ofYear int
		inYear int
	}{{"1970-01-01", 0, 365}, {"2024-02-29", 59, 366}, {"2024-12-31", 365, 366}, {"2026-12-31", 364, 365}, {"1969-12-31", 364, 365}} {
		d, err := ParseDay(tt.date)
		if err != nil {
			t.Fatal(err)
		}
		if d.String() != tt.date || d.OfYear() != tt.ofYear || daysIn(d.Year()) != tt.inYear {
			t.Errorf("%s: got %s, day %d of %d, want day %d of %d", tt.date, d, d.OfYear(), daysIn(d.Year()), tt.ofYear, tt.inYear)
		}
	}
}

func TestLoadZone_RefusesEmptyNames(t *testing.T) {
	for _, name := range []string{"", "Local", "Mars/Olympus", "../UTC", "/etc/localtime", "Asia/Shanghai\x00"} {
		if _, err := LoadZone(name); !errors.Is(err, ErrZone) {
			t.Errorf("LoadZone(%q): got %v, want ErrZone", name, err)
		}
	}
}

// TestLoadZone_OneNamePerZone: a system with a folder of zones opens each under endless names, and all loaded ones
// stay in memory.
func TestLoadZone_OneNamePerZone(t *testing.T) {
	for _, name := range []string{"Europe//Athens", "Europe/./Athens", "./Europe/Athens", "Europe/Athens/", "posix/Europe/Athens", "right/UTC",
		"posixrules", "localtime"} {
		if _, err := LoadZone(name); !errors.Is(err, ErrZone) {
			t.Errorf("LoadZone(%q): got %v, want ErrZone", name, err)
		}
	}
	for _, name := range []string{"UTC", "Europe/Athens", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+12",
		"EST5EDT"} {
		if _, err := LoadZone(name); err != nil {
			t.Errorf("LoadZone(%q): %v", name, err)
		}
	}
}

func TestStartOfADay(t *testing.T) {
	for _, tt := range []struct{ what, zone, day, want string }{
		{"UTC", "UTC", "2026-11-21", "2026-11-21T00:00:00Z"},
		{"east", "Asia/Shanghai", "2026-01-01", "2025-12-31T16:00:00Z"},
		{"spring forward at midnight has no 00:00", "America/Havana", "2026-03-08", "2026-03-08T05:00:00Z"},
		{"a quarter-hour zone", "Asia/Kathmandu", "2026-06-01", "2026-05-31T18:15:00Z"},
		{"a date the zone skipped starts with the next", "Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},
	} {
		d, _ := ParseDay(tt.day)
		if got := (Clock{Zone: tt.zone}).Start(d).Format(time.RFC3339); got != tt.want {
			t.Errorf("%s: Start(%s) in %s: got %s, want %s", tt.what, tt.day, tt.zone, got, tt.want)
		}
	}
}

func TestChange_AppliesFromTheNextMidnight(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // 20:00 in Shanghai
	c, err := Clock{Zone: "Asia/Shanghai"}.Change("America/Los_Angeles", now)
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	if got := c.In(midnight.Add(-time.Second)); got != "Asia/Shanghai" {
		t.Errorf("before midnight: got %s", got)
	}
	if got := c.In(midnight); got != "America/Los_Angeles" {
		t.Errorf("from midnight on: got %s", got)
	}
	if got := c.Today(midnight).String(); got != "2026-11-21" {
		t.Errorf("flying east to west repeats the date: got %s", got)
	}
	if back, _ := c.Change("Asia/Shanghai", now); back != (Clock{Zone: "Asia/Shanghai"}) {
		t.Errorf("taking the change back: got %+v", back)
	}
}

func TestSkipped_ReturnsTheSkippedDate(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	c, _ := Clock{Zone: "Pacific/Pago_Pago"}.Change("Pacific/Kiritimati", now) // UTC−11 to UTC+14
	skipped, ok := c.Skipped()
	if !ok || skipped.String() != "2026-11-22" {
		t.Errorf("Skipped: got %s, %v, want 2026-11-22", skipped, ok)
	}
	if got := c.Today(c.Start(skipped)).String(); got != "2026-11-23" {
		t.Errorf("the skipped date starts as the next one: got %s", got)
	}
}

func TestToday_NeverDecreases(t *testing.T) {
	names := []string{"UTC", "Asia/Shanghai", "America/Los_Angeles", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu",
		"America/Havana", "Africa/Cairo", "Pacific/Apia", "Asia/Beirut"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(names)
		at := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "at"), 0)
		c, err := Clock{Zone: zone.Draw(t, "zone")}.Change(zone.Draw(t, "next"), at)
		if err != nil {
			t.Fatal(err)
		}
		last := c.Today(at)
		for range 200 {
			at = at.Add(15 * time.Minute)
			d := c.Today(at)
			if d < last || d > last+2 {
				t.Fatalf("%+v: %s after %s at %s", c, d, last, at.UTC())
			}
			if d > last {
				if start := c.Start(d); c.Today(start) < d || c.Today(start.Add(-time.Second)) >= d {
					t.Fatalf("%+v: Start(%s) = %s is not the first instant", c, d, start)
				}
			}
			last = d
		}
	})
}

func TestChange_DuringAnExtendedDateDecreasesNone(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	moved, err := Clock{Zone: "Pacific/Kiritimati"}.Change("Pacific/Pago_Pago", now) // UTC+14 to UTC−11
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(moved.From).Add(30 * time.Minute) // in Pago Pago it is the day before
	last := moved.Today(at)
	for _, zone := range []string{"Pacific/Pago_Pago", "Asia/Tokyo", "Pacific/Kiritimati", "Etc/GMT+12"} {
		c, err := moved.Change(zone, at)
		if err != nil {
			t.Fatal(err)
		}
		if d := c.Today(at); d < last || d > last+1 {
			t.Errorf("%s: %s after %s", zone, d, last)
		}
	}
}

func TestToday_NeverDecreasesWithManyChanges(t *testing.T) {
	names := rapid.SampledFrom([]string{"UTC", "Asia/Tokyo", "America/Havana", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Pago_Pago",
		"Etc/GMT+12"})
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "at"), 0)
		c := Clock{Zone: names.Draw(t, "zone")}
		last := c.Today(at)
		for range 30 {
			at = at.Add(time.Duration(rapid.IntRange(1, 30*60).Draw(t, "minutes")) * time.Minute)
			if d := c.Today(at); d < last || d > last+3 {
				t.Fatalf("%+v: %s after %s at %s", c, d, last, at.UTC())
			}
			last = c.Today(at)
			var err error
			if c, err = c.Change(names.Draw(t, "next"), at); err != nil {
				t.Fatal(err)
			}
			d := c.Today(at)
			if d < last || d > last+1 {
				t.Fatalf("chosen at %s: %+v and %s, after %s", at.UTC(), c, d, last)
			}
			last = d
		}
	})
}

// At one minute past midnight the clocks of St John's were set back by an hour.
func TestToday_StaysWhenTheClockIsSetBack(t *testing.T) {
	c := Clock{Zone: "America/St_Johns"}
	sunday := DayOf(2010, 11, 7)
	midnight := time.Date(2010, 11, 7, 2, 30, 0, 0, time.UTC)
	for after, want := range map[time.Duration]Day{
		-time.Second:     sunday - 1,
		0:                sunday,
		59 * time.Second: sunday,
		time.Minute:      sunday, // 23:01 again
		30 * time.Minute: sunday,
		time.Hour:        sunday, // the second midnight
		24 * time.Hour:   sunday,
		25 * time.Hour:   sunday + 1,
	} {
		if got := c.Today(midnight.Add(after)); got != want {
			t.Errorf("%s after midnight: got %s, want %s", after, got, want)
		}
	}
	if got := c.Start(sunday); !got.Equal(midnight) {
		t.Errorf("it begins at %s, want %s", got, midnight)
	}
	if got := c.Start(sunday + 1); !got.Equal(midnight.Add(25 * time.Hour)) {
		t.Errorf("the next one begins at %s", got)
	}
}

// No zone's date has decreased since the first year of calendars.
func TestToday_NeverDecreasesInAnyZone(t *testing.T) {
	for _, name := range []string{"America/St_Johns", "Asia/Beirut", "America/Asuncion", "Asia/Gaza", "Pacific/Apia", "Pacific/Kwajalein",
		"America/Scoresbysund", "America/Havana", "Africa/Casablanca"} {
		loc, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		c := Clock{Zone: name}
		for at := time.Unix(0, 0).In(loc); at.Year() < 2030; {
			_, change := at.ZoneBounds()
			if change.IsZero() {
				break
			}
			last := c.Today(change.Add(-3 * time.Hour))
			for s := -3 * 60; s < 27*60; s++ {
				if d := c.Today(change.Add(time.Duration(s) * time.Minute)); d < last {
					t.Fatalf("%s: %s comes after %s at %s", name, d, last, change.Add(time.Duration(s)*time.Minute))
				} else {
					last = d
				}
			}
			at = change
		}
	}
}
