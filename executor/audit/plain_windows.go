package audit

// noStrangers keeps an open from what is no file of the log. Here nothing does.
const noStrangers = 0
