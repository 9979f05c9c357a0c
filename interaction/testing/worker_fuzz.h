// Tests a worker whose coordinator sends arbitrary messages. The worker must still end when it is
// told to, or when its coordinator is gone.
//
// Threads: thread-compatible.
//
// Example:
//   FuzzWorker([](Mutator* mutator) { return RandomMessage(mutator->rng()); },
//              [](WorkerSession* session) { return MyWorker(session).Run(); });
#ifndef DING_WORKER_INTERACTION_TESTING_WORKER_FUZZ_H_
#define DING_WORKER_INTERACTION_TESTING_WORKER_FUZZ_H_

#include <functional>

#include "absl/status/statusor.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Runs one worker after another; `run` creates one and calls its Run(), on a thread of its own.
// Each is sent the messages that `say` returns, which are often mutated and sometimes are no valid
// messages, and then the end of the run or of the session. The test fails unless there are runs
// that end by EndRun, by the loss of the session, and by an invalid message.
void FuzzWorker(const std::function<CoordinatorMessage(Mutator*)>& say,
                const std::function<absl::StatusOr<EndRun>(WorkerSession*)>& run);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_WORKER_FUZZ_H_
