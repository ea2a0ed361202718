// Package media forwards pictures and sound of live streams over WebRTC. A [Source] receives the packets of a publisher
// and forwards them to each [Viewer] and to a [Recorder]. The package has no users and no stored streams.
//
// # What is forwarded
//
// RTP packets are forwarded unchanged: VP8 or H.264, and Opus. The server neither decodes nor encodes. So viewers get
// the publisher's bitrate and resolution, and a viewer whose player lacks the codec sees no picture. Sequence numbers
// remain those of the publisher.
//
// # Late joiners
//
// A source stores the current group of pictures: the last key frame and the pictures after it ([gop]). A new viewer
// gets it at once. The timestamps of its pictures are one millisecond apart and end at the newest picture. So the
// player shows the newest picture as soon as it has decoded the others. If the group is too large to store, the source
// asks the publisher for a key frame (PLI), and the viewer gets pictures from there on.
//
// # Slow viewers
//
// Each viewer has a queue and a goroutine, so that no viewer delays another one or the publisher. Packets that do not
// fit into the queue are lost for this viewer, who gets pictures again from the next key frame on.
//
// # Ports
//
// All sessions of an [Engine] share one UDP port. Without a host, the engine has one socket for each address of the
// machine, and [Engine.UpdateAddresses] handles added and removed addresses.
package media
