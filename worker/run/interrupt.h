// Turns Ctrl-C and SIGTERM into a flag that a loop polls, so that an interrupted run ends with a
// checkpoint.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_RUN_INTERRUPT_H_
#define DING_WORKER_WORKER_RUN_INTERRUPT_H_

namespace ding {

// From now on the first SIGINT or SIGTERM is only recorded; a second one ends the process as usual.
void CatchInterrupts();

// The signal that arrived, or 0.
int InterruptSignal();

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_INTERRUPT_H_
