// Many random numbers at once, in a third of the time or less. The loop is compiled for several
// instruction sets; the best one is chosen at run time.
//
// Threads: as Rng.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_FILL_RANDOM_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_FILL_RANDOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"

namespace ding {

// Fills `numbers` with what as many calls of rng->Next32() would return.
void FillRandom(Rng* rng, absl::Span<uint32_t> numbers);

namespace internal_selection {

using PhiloxLoop = void (*)(uint64_t key, uint64_t first_block, size_t blocks, uint32_t* numbers);
// Writes Philox4x32() of consecutive blocks; compiled for `set`, which this processor must support.
PhiloxLoop PhiloxLoopFor(InstructionSet set);

}  // namespace internal_selection
}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_FILL_RANDOM_H_
