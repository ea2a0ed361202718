package web

// Capacity is how many connections a node serves at a time.
type Capacity struct {
	Files   int // open files that the process may have; 0: unlimited, or unknown
	Conns   int // connections of all kinds
	Lasting int // sockets and streams among them; the other ones are for requests, such as probes
}

const (
	// MaxConns is the largest number of connections of a node, whatever number of files it may open.
	MaxConns = 50_000

	// engineFiles is the number of files of a node without connections, the database apart: the embedded
	// engines, Redis, listeners, sockets of live streams.
	engineFiles = 48

	maxReserve = 1024 // of open files, for files that are uploaded or served, and for calls to other servers
	minConns   = 16   // with a limit that is too low for anything else
)

// CapacityOf divides the open files that this process may have; engines is the number of
// connections to the database.
func CapacityOf(engines int) Capacity { return capacityOf(openFiles(), engines) }

func capacityOf(files, engines int) Capacity {
	c := Capacity{Files: files, Conns: MaxConns}
	if files > 0 {
		c.Conns = min(MaxConns, max(minConns, files-engineFiles-engines-min(files/8, maxReserve)))
	}
	c.Lasting = c.Conns - min(max(c.Conns/8, minConns/2), maxReserve)
	return c
}
