// Mutates well-formed messages, for tests of the code that handles messages. The mutants still
// parse.
//
//   Fuzz(1000, [&](Mutator* mutator) {
//     WorkerMessage message = good;
//     MutateMessage(mutator, &message);
//     handler.Handle(message);
//   });
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_TESTING_MESSAGE_MUTATOR_H_
#define DING_WORKER_INTERACTION_TESTING_MESSAGE_MUTATOR_H_

#include "ding_worker/base/fuzz_testing.h"
#include "google/protobuf/message.h"

namespace ding {

// Changes one to three fields, at any depth: clears, repeats or drops them, or fills them with
// numbers at the ends of their ranges, with numbers that are off by one, or with mutated bytes.
void MutateMessage(Mutator* mutator, google::protobuf::Message* message);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_MESSAGE_MUTATOR_H_
