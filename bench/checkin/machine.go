package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is where a run took place: ratios depend on it, absolutes more so.
type machine struct {
	Cores   int     `json:"cores"`
	CPU     string  `json:"cpu"`
	Go      string  `json:"go"`
	Redis   string  `json:"redis"`
	SQL     string  `json:"sql"`
	SyncP50 float64 `json:"fdatasync_p50_ms"`
	SyncP99 float64 `json:"fdatasync_p99_ms"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, Redis %s, %s; fdatasync of 4 KB takes %.2f ms (p99 %.2f)",
		m.Cores, m.CPU, m.Go, m.Redis, m.SQL, m.SyncP50, m.SyncP99)
}

// lookAround probes the folder in which the servers keep their data: how long
// it takes to make 4 KB durable decides what a commit costs.
func lookAround(dir string) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), CPU: "unknown", Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return m, err
	}
	defer f.Close()
	page := make([]byte, 4096)
	took := make([]time.Duration, 200)
	for i := range took {
		if _, err := f.Write(page); err != nil {
			return m, err
		}
		start := time.Now()
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return m, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	m.SyncP50, m.SyncP99 = ms(took[len(took)/2]), ms(took[len(took)*99/100])
	return m, nil
}

// cpuTime is what all cores have done since the machine started, in ticks.
type cpuTime struct{ idle, total float64 }

func readCPU() (t cpuTime, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	// user nice system idle iowait irq softirq steal; guests are in user already
	for i, field := range strings.Fields(first)[1:9] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, err
		}
		t.total += n
		if i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, nil
}

// idleSince is the percentage of all cores that nobody used since before.
func (before cpuTime) idleSince() (float64, error) {
	now, err := readCPU()
	if err != nil || now.total == before.total {
		return 0, err
	}
	return 100 * (now.idle - before.idle) / (now.total - before.total), nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ownCPU is the processor time that this process has used, in µs.
func ownCPU() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
