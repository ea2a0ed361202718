package pipe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestPipe_BuffersWithoutReader(t *testing.T) {
	a, b := New()
	want := bytes.Repeat([]byte("0123456789"), 300_000)
	for chunk := want; len(chunk) > 0; chunk = chunk[min(len(chunk), 70_001):] {
		if _, err := a.Write(chunk[:min(len(chunk), 70_001)]); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v; want the %d written", len(got), err, len(want))
	}
	if _, err := a.Write([]byte("x")); err == nil {
		t.Error("writing to a closed pipe succeeded")
	}
}

func TestPipe_BufferDoesNotGrow(t *testing.T) {
	a, b := New()
	buf := make([]byte, 1000)
	a.Write(buf) // the reader always lags by this much
	for range 10_000 {
		a.Write(buf)
		io.ReadFull(b, buf)
	}
	if got := cap(a.(*pipe).out.buf); got > 10*len(buf) {
		t.Errorf("the buffer grew to %d bytes for %d under way", got, 2*len(buf))
	}
}

func TestPipe_LaggingReaderIsCut(t *testing.T) {
	a, b := New()
	chunk := make([]byte, 16<<20)
	var err error
	written := 0
	for ; err == nil && written <= 2*limit; written += len(chunk) {
		_, err = a.Write(chunk)
	}
	if err == nil || written > limit+2*len(chunk) {
		t.Errorf("wrote %d bytes without a reader, %v; want a cut at %d", written, err, limit)
	}
	if n, err := io.Copy(io.Discard, b); n < limit-int64(len(chunk)) || err != nil {
		t.Errorf("the reader got %d bytes, %v; want what was written before the cut, and the end", n, err)
	}
}

func TestPipe_DeadlineEndsRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := New()
		defer a.Close()
		began := time.Now()
		b.SetDeadline(began.Add(time.Minute))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("Read: %v after %s; want ErrDeadlineExceeded after a minute", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { b.SetDeadline(time.Now()) })
		b.SetDeadline(time.Time{})
		began = time.Now()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Read: %v after %s; want a deadline set meanwhile to end it after a second", err, time.Since(began))
		}
		b.SetDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { a.Write([]byte("x")) })
		if n, err := b.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Errorf("Read without a deadline = %d, %v; want 1", n, err)
		}
	})
}
