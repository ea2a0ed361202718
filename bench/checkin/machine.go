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

// machine describes the machine of a run: ratios depend on it, and absolute values depend on it more.
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

// lookAround measures the folder of the servers' data. The time to make 4 KB durable determines the cost of a commit.
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

// cpuTime is processor time in µs: of all cores since the start of the machine, of this process and of its children.
type cpuTime struct{ idle, total, own, servers float64 }

const tick = 1e4 // µs per tick in /proc

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
		t.total += tick * n
		if i == 3 || i == 4 {
			t.idle += tick * n
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return t, err
	}
	t.own = float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return t, err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name may contain any character; a bracket ends it. State and parent follow, and ten fields later user and
		// system time.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, field := range fields[11:13] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return t, err
			}
			t.servers += tick * n
		}
	}
	return t, nil
}

func (t cpuTime) minus(before cpuTime) cpuTime {
	return cpuTime{t.idle - before.idle, t.total - before.total, t.own - before.own, t.servers - before.servers}
}

// share returns a time as a percentage of the time of all cores.
func (t cpuTime) share(of float64) float64 { return 100 * of / max(t.total, 1) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
