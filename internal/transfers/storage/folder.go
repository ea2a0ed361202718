package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
)

// folder stores parts as files, in one folder for each transfer.
type folder struct {
	path string

	mu   sync.Mutex
	root *os.Root // nil before the first use
}

// open returns the folder, which it creates if it does not exist. A failure is not stored: the next call retries.
func (f *folder) open() (*os.Root, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root != nil {
		return f.root, nil
	}
	err := os.MkdirAll(f.path, 0o700)
	if err == nil {
		f.root, err = os.OpenRoot(f.path)
	}
	return f.root, err
}

func (f *folder) String() string { return "folder " + f.path }
func (f *folder) InMemory() bool { return false }

func (f *folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

func (f *folder) Create(_ context.Context, name string) (Writing, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err := root.Mkdir(path.Dir(name), 0o700); err == nil {
			if err := f.sync("."); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrNotExist) && try < 3 {
			continue // the transfer's last part was deleted with its folder
		}
		if err != nil {
			return nil, err
		}
		return &folderPart{File: file, in: f, name: name}, nil
	}
}

// sync makes the names in a folder durable.
func (f *folder) sync(dir string) error {
	d, err := f.openFile(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openFile opens a file or folder inside the folder.
func (f *folder) openFile(name string) (*os.File, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	return root.Open(name)
}

func (f *folder) Open(_ context.Context, name string, from, _ int64) (io.ReadCloser, error) {
	file, err := f.openFile(name)
	if err == nil && from > 0 {
		if _, err = file.Seek(from, io.SeekStart); err != nil {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f *folder) Remove(_ context.Context, names ...string) error { return f.remove(names...) }

func (f *folder) remove(names ...string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	var faults []error
	for i, name := range names {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
		if i+1 == len(names) || path.Dir(names[i+1]) != path.Dir(name) {
			_ = root.Remove(path.Dir(name)) // fails if it has other parts
		}
	}
	return errors.Join(faults...)
}

// namesAtOnce is the number of a folder's names in memory at a time, because there may be many millions.
const namesAtOnce = 1000

func (f *folder) List(ctx context.Context, each func(name string) error) error {
	return f.list(ctx, ".", each)
}

// list is [folder.List] for an inner folder.
func (f *folder) list(ctx context.Context, dir string, each func(name string) error) error {
	d, err := f.openFile(dir)
	if errors.Is(err, fs.ErrNotExist) { // it was deleted meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		entries, end := d.ReadDir(namesAtOnce)
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				err = f.list(ctx, name, each)
			} else {
				err = each(name)
			}
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(end, io.EOF), errors.Is(end, fs.ErrNotExist):
			return nil
		case end != nil:
			return end
		}
	}
}

// folderPart is a file that is being written.
type folderPart struct {
	*os.File
	in   *folder
	name string
}

func (p *folderPart) Complete(context.Context) error {
	err := errors.Join(p.Sync(), p.Close())
	if err == nil {
		err = p.in.sync(path.Dir(p.name))
	}
	if err != nil {
		_ = p.in.remove(p.name)
	}
	return err
}

func (p *folderPart) Abort() {
	_ = p.Close()
	_ = p.in.remove(p.name)
}
