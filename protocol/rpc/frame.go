package rpc

import (
	"encoding/binary"
	"math/rand/v2"
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
	b = append(b, payload...)
	maskBytes(key, b[start:])
	return b
}

// maskBytes turns a payload into its masked form, and back.
func maskBytes(key uint32, p []byte) {
	wide := uint64(key) | uint64(key)<<32
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^wide)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= byte(key >> (8 * i % 32))
	}
}

func opcodeOf(frame []byte) byte {
	if isBinary(frame) || isPart(frame) || len(frame) > 0 && frame[0] == takenMark {
		return opBinary
	}
	return opText
}
