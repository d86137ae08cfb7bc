//go:build unix && !linux

package shell

const fionread = 0x4004667f // FIONREAD, the same on every BSD and on macOS
