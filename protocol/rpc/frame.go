package rpc

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
	opFinal        = 0x80
	maskBit        = 0x80
)

// maxFrameHeader is the most that comes before a payload.
const maxFrameHeader = 14

// appendFrame writes one WebSocket frame (RFC 6455, section 5.2). gorilla does the
// handshake and the reading; what goes out is framed here, since its writer copies each
// message once more, takes locks and timers for it, and waits where this end must not.
// mask is for the client's end.
func appendFrame(b []byte, opcode byte, final, mask bool, payload []byte) []byte {
	if final {
		opcode |= opFinal
	}
	var bit byte
	if mask {
		bit = maskBit
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, opcode, bit|byte(n))
	case n < 1<<16:
		b = append(b, opcode, bit|126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, opcode, bit|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if !mask {
		return append(b, payload...)
	}
	key := rand.Uint32()
	b = binary.LittleEndian.AppendUint32(b, key)
	start := len(b)
	b = slices.Grow(b, len(payload))[:start+len(payload)]
	maskInto(b[start:], key, payload)
	return b
}

// maskInto copies a payload in its masked form, or back; dst is as long. To copy first and
// mask then would go over much output twice.
func maskInto(dst []byte, key uint32, p []byte) {
	wide := uint64(key) | uint64(key)<<32
	for len(p) >= 32 && len(dst) >= 32 {
		from, to := p[:32], dst[:32]
		binary.LittleEndian.PutUint64(to[0:8], binary.LittleEndian.Uint64(from[0:8])^wide)
		binary.LittleEndian.PutUint64(to[8:16], binary.LittleEndian.Uint64(from[8:16])^wide)
		binary.LittleEndian.PutUint64(to[16:24], binary.LittleEndian.Uint64(from[16:24])^wide)
		binary.LittleEndian.PutUint64(to[24:32], binary.LittleEndian.Uint64(from[24:32])^wide)
		p, dst = p[32:], dst[32:]
	}
	for i, c := range p {
		dst[i] = c ^ byte(key>>(8*i%32))
	}
}

func opcodeOf(frame []byte) byte {
	if isBinary(frame) || isPart(frame) || len(frame) > 0 && frame[0] == takenMark {
		return opBinary
	}
	return opText
}
