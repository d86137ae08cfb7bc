// Package agent makes of settings what serves brains: an executor for each, with its credential, certificates,
// capabilities and state directory. What settings ask for is also looked at here without a start, for executor
// config check and for the doctor.
//
//	agents, warnings, err := agent.Plan(settings, hide) // changes nothing
//	err = agent.Build(agents, log)
//	err = agent.RunAll(ctx, agents)
//
// brains.go splits settings that name several brains, prepare.go makes the options of one; brainurl.go,
// credential.go, exchange.go and tlsfiles.go are its parts. startcheck.go finds what a start would refuse; doctor.go
// and doctorhost.go make the checks of the doctor, whose means are in package doctor.
package agent
