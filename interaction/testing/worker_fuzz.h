// A test of a worker whose coordinator says anything: it ends when it is told to, or when its
// coordinator is gone, whatever it heard before.
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
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

// Runs one worker after the other: `run` is Run() of a new one, on a thread of its own. Each is sent
// what `say` returns, often changed and now and then no message at all, and then the end of the run or
// of the session. The test fails if the runs do not end in all three ways.
void FuzzWorker(const std::function<CoordinatorMessage(Mutator*)>& say,
                const std::function<absl::StatusOr<EndRun>(WorkerSession*)>& run);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_WORKER_FUZZ_H_
