package media

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/at-wat/ebml-go/mkvcore"
	"github.com/at-wat/ebml-go/webm"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media/samplebuilder"
)

// ErrNoRecording reports that a source's video codec cannot be recorded.
var ErrNoRecording = errors.New("media: only VP8 and Opus are recorded")

const (
	// cuesBytes is the space in a file that is reserved for the index of key frames.
	cuesBytes = 64 << 10
	// headBytes is the largest size of a file's header. pictureBytes and soundBytes are the largest overheads of a
	// picture and of a sound sample. Every picture may begin a cluster; a sound sample begins one only every half a
	// minute.
	headBytes    = cuesBytes + 4<<10
	pictureBytes = 48
	soundBytes   = 16
	// lateness is the largest number of packets to wait for a missing one, and stillness the longest time.
	lateness  = 512
	stillness = time.Second
)

// Recording is the result of a recorder.
type Recording struct {
	Bytes    int64 // of the file
	Duration time.Duration
	Full     bool // it ended because the file has reached its limit
}

// Recorder writes a source to a WebM file until the source ends.
type Recorder struct {
	file     *os.File
	src      *Source
	receiver receiver
	most     int64
	began    time.Time
	out      Recording
	err      error
	done     chan struct{}
	stop     chan struct{}
	once     sync.Once
}

// Record starts to write a source of VP8 and Opus to file, at most most bytes, beginning with a key frame. The file
// remains open. It returns ErrNoRecording or ErrEnded without a change of the file.
func Record(src *Source, file *os.File, most int64) (*Recorder, error) {
	if v := src.Formats.Video; v != nil && v.Mime != webrtc.MimeTypeVP8 {
		return nil, ErrNoRecording
	}
	r := &Recorder{file: file, src: src, most: most, done: make(chan struct{}), stop: make(chan struct{}),
		receiver: receiver{queue: make(chan item, queued)}}
	if _, err := src.add(&r.receiver); err != nil {
		return nil, err
	}
	r.began = time.Now()
	go func() {
		defer close(r.done)
		r.err = r.run()
		src.remove(&r.receiver)
		r.err = errors.Join(r.err, file.Sync())
		if info, err := file.Stat(); err == nil {
			r.out.Bytes = info.Size()
		}
	}()
	return r, nil
}

// Done is closed when the file is complete.
func (r *Recorder) Done() <-chan struct{} { return r.done }

// Result waits for the end of the recording and returns its result.
func (r *Recorder) Result() (Recording, error) {
	<-r.done
	return r.out, r.err
}

// Stop ends the recording before the source ends, and waits until the file is complete.
func (r *Recorder) Stop() {
	r.once.Do(func() { close(r.stop) })
	<-r.done
}

// kept is the file as the library gets it. The library must not close it, because it belongs to the caller. It must not
// get errors either: after an error it reads no more samples, and the next Write of a track would block forever. So
// kept stores the errors and then appends no more data.
type kept struct {
	file *os.File
	mu   sync.Mutex
	err  error
}

// Write implements [io.Writer].
func (k *kept) Write(b []byte) (int, error) {
	if k.fault() == nil {
		if _, err := k.file.Write(b); err != nil {
			k.fail(err)
		}
	}
	return len(b), nil
}

// WriteAt implements [io.WriterAt]. The index and the duration are written to reserved space, even after an error.
func (k *kept) WriteAt(b []byte, at int64) (int, error) {
	if _, err := k.file.WriteAt(b, at); err != nil {
		k.fail(err)
	}
	return len(b), nil
}

// Close implements [io.Closer].
func (*kept) Close() error { return nil }

func (k *kept) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = errors.Join(k.err, err)
}

func (k *kept) fault() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// tracked is a track of a file.
type tracked struct {
	build *samplebuilder.SampleBuilder
	to    webm.BlockWriteCloser
	clock int64 // units of its timestamps per ms
	extra int64 // bytes of overhead for each sample
	begun bool
	base  int64 // position of its first sample in the file, in ms
	last  uint32
	at    int64 // units since the first sample
}

// moment returns the position of a sample in the file, in ms.
func (t *tracked) moment(ts uint32, now time.Duration) int64 {
	if !t.begun {
		t.begun, t.base, t.last = true, now.Milliseconds(), ts
	}
	t.at += int64(int32(ts - t.last))
	t.last = ts
	return t.base + t.at/t.clock
}

func (r *Recorder) run() error {
	w := newWebmWriter(r)
	var fault error
	for fault == nil && !r.out.Full {
		select {
		case it := <-r.receiver.queue:
			fault = w.add(it)
			continue
		case <-r.src.Done():
		case <-r.stop:
		}
		break
	}
	return errors.Join(fault, w.close())
}

// webmWriter writes the packets of a recorder.
type webmWriter struct {
	r      *Recorder
	out    *kept
	tracks [2]*tracked // nil: the source has no such track
	begun  bool
}

func newWebmWriter(r *Recorder) *webmWriter {
	w := &webmWriter{r: r, out: &kept{file: r.file}}
	if r.src.Formats.Video != nil {
		w.tracks[video] = &tracked{build: samplebuilder.New(lateness, &codecs.VP8Packet{}, 90000, samplebuilder.WithMaxTimeDelay(stillness)),
			clock: 90, extra: pictureBytes}
	}
	if r.src.Formats.Audio != nil {
		w.tracks[audio] = &tracked{build: samplebuilder.New(lateness, &codecs.OpusPacket{}, 48000, samplebuilder.WithMaxTimeDelay(stillness)),
			clock: 48, extra: soundBytes}
	}
	return w
}

// open starts the file. width and height are the size of the pictures, or 0 without pictures.
func (w *webmWriter) open(width, height uint64) error {
	var entries []webm.TrackEntry
	var tracks []*tracked
	if w.tracks[audio] != nil {
		tracks = append(tracks, w.tracks[audio])
		entries = append(entries, webm.TrackEntry{Name: "Audio", TrackNumber: 1, TrackUID: 1, CodecID: "A_OPUS", TrackType: 2,
			CodecPrivate: opusHead, Audio: &webm.Audio{SamplingFrequency: 48000, Channels: 2}})
	}
	if w.tracks[video] != nil {
		tracks = append(tracks, w.tracks[video])
		entries = append(entries, webm.TrackEntry{Name: "Video", TrackNumber: 2, TrackUID: 2, CodecID: "V_VP8", TrackType: 1,
			Video: &webm.Video{PixelWidth: width, PixelHeight: height}})
	}
	// The library's default sorter drops blocks that are older than the last written one. That would drop all sound
	// once it arrives later than the pictures.
	sorter, err := mkvcore.NewMultiTrackBlockSorter(mkvcore.WithMaxDelayedPackets(16), mkvcore.WithSortRule(mkvcore.BlockSorterWriteOutdated))
	if err != nil {
		return err
	}
	opts := []mkvcore.BlockWriterOption{mkvcore.WithBlockInterceptor(sorter), mkvcore.WithSeekHead(true), mkvcore.WithCues(cuesBytes),
		mkvcore.WithOnErrorHandler(w.out.fail), mkvcore.WithOnFatalHandler(w.out.fail)}
	if w.tracks[video] != nil {
		opts = append(opts, mkvcore.WithMaxKeyframeInterval(2, 30_000))
	}
	blocks, err := webm.NewSimpleBlockWriter(w.out, entries, opts...)
	for i, b := range blocks {
		tracks[i].to = b
	}
	w.begun, w.r.out.Bytes = err == nil, headBytes
	w.r.began = time.Now()
	return err
}

// add adds a packet, and writes the samples that are complete with it.
func (w *webmWriter) add(it item) error {
	t := w.tracks[it.kind]
	if t == nil {
		return nil
	}
	t.build.Push(it.packet)
	for {
		s := t.build.Pop()
		if s == nil {
			return w.out.fault()
		}
		if len(s.Data) == 0 {
			continue
		}
		if err := w.write(it.kind, s.Data, s.PacketTimestamp); err != nil || w.r.out.Full {
			return err
		}
	}
}

// write writes a sample. The file begins with a key frame, or with sound if there are no pictures. Earlier samples are
// dropped.
func (w *webmWriter) write(kind int, data []byte, stamp uint32) error {
	r, t := w.r, w.tracks[kind]
	key := kind == audio || data[0]&1 == 0
	if !w.begun {
		if kind == audio && w.tracks[video] != nil || !key {
			return nil
		}
		var width, height uint64
		if kind == video {
			var whole bool
			if width, height, whole = vp8Size(data); !whole {
				return nil
			}
		}
		if err := w.open(width, height); err != nil {
			return err
		}
	}
	at := t.moment(stamp, time.Since(r.began))
	if at < 0 {
		return nil
	}
	r.out.Bytes += t.extra + int64(len(data))
	if r.out.Bytes > r.most {
		r.out.Full = true
		return w.out.fault()
	}
	r.out.Duration = max(r.out.Duration, time.Duration(at)*time.Millisecond)
	_, err := t.to.Write(key, at, data)
	return err
}

// close completes the file if it was started.
func (w *webmWriter) close() error {
	if !w.begun {
		return nil
	}
	var fault error
	for _, t := range w.tracks {
		if t != nil {
			fault = errors.Join(fault, t.to.Close())
		}
	}
	return errors.Join(fault, w.out.fault())
}

// vp8Size returns the size of the pictures after a key frame, see RFC 6386 section 9.1. It returns false if the key
// frame is incomplete.
func vp8Size(key []byte) (width, height uint64, whole bool) {
	if len(key) < 10 {
		return 0, 0, false
	}
	return uint64(key[6]) | uint64(key[7]&0x3f)<<8, uint64(key[8]) | uint64(key[9]&0x3f)<<8, true
}

// opusHead is the header of two-channel Opus in a file, see RFC 7845.
var opusHead = []byte{'O', 'p', 'u', 's', 'H', 'e', 'a', 'd', 1, 2, 0, 0, 0x80, 0xbb, 0, 0, 0, 0, 0}
