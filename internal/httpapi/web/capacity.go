package web

// Capacity is the number of connections that a node serves at a time.
type Capacity struct {
	Files   int // limit of open files of the process; 0: unlimited, or unknown
	Conns   int // connections of all kinds
	Lasting int // largest number of sockets and streams among Conns; the rest is for requests, such as probes
}

const (
	// MaxConns is the largest number of connections of a node, however high its limit of open files is.
	MaxConns = 50_000

	// engineFiles is the number of files of a node without connections: the embedded engines, Redis, listeners,
	// sockets of live streams. Files of the database are not included.
	engineFiles = 48

	maxReserve = 1024 // open files for uploads, downloads and calls to other servers
	minConns   = 16   // the smallest number of connections, even if the limit of open files is too low
)

// CapacityOf divides the open files of this process among its uses; engines is the number of connections to the
// database.
func CapacityOf(engines int) Capacity { return capacityOf(openFiles(), engines) }

func capacityOf(files, engines int) Capacity {
	c := Capacity{Files: files, Conns: MaxConns}
	if files > 0 {
		c.Conns = min(MaxConns, max(minConns, files-engineFiles-engines-min(files/8, maxReserve)))
	}
	c.Lasting = c.Conns - min(max(c.Conns/8, minConns/2), maxReserve)
	return c
}
