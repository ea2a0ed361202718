// Command size compares the size of a minimal program with package cache with that of a program that does the same with
// otter and rueidis by hand:
//
//	go run ./size
//
// It builds both as a release is built, without symbols. It ends with an error if the first is more than 1.15 times as
// large as the second.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

// most is the largest allowed ratio of the sizes.
const most = 1.15

func main() {
	dir, err := os.MkdirTemp("", "size-")
	if err != nil {
		log.Fatal(err)
	}
	ours, err1 := size(dir, "stoa")
	theirs, err2 := size(dir, "byhand")
	os.RemoveAll(dir)
	for _, err := range []error{err1, err2} {
		if err != nil {
			log.Fatal(err)
		}
	}
	ratio := float64(ours) / float64(theirs)
	fmt.Printf("package cache %.2f MB, otter and rueidis by hand %.2f MB: %.3f times, at most %.2f wanted\n", mega(ours), mega(theirs), ratio,
		most)
	if ratio > most {
		os.Exit(1)
	}
}

// size builds the program of that name, and returns its size in bytes.
func size(dir, name string) (int64, error) {
	file := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file,
		"github.com/stoa-dev/stoa/bench/size/"+name).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }
