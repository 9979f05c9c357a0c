#include "ding_worker/replay_buffer/selection/fill_random.h"

#include <array>

#include "ding_worker/base/compiled_loops.h"

namespace ding {
namespace {

// GCC inlines and vectorizes Philox4x32() here, too.
DING_INLINE void FillBlocks(uint64_t key, uint64_t first_block, size_t blocks, uint32_t* numbers) {
  for (size_t i = 0; i < blocks; ++i) {
    const uint64_t block = first_block + i;
    const std::array<uint32_t, 4> made = internal_base::Philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
        {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    for (size_t j = 0; j < 4; ++j) numbers[4 * i + j] = made[j];
  }
}

struct Compiled {
  template <InstructionSet kSet>
  static constexpr internal_selection::PhiloxLoop kLoops = Compile<kSet, FillBlocks>();
};

}  // namespace

internal_selection::PhiloxLoop internal_selection::PhiloxLoopFor(InstructionSet set) {
  return LoopsFor<Compiled>(set);
}

void FillRandom(Rng* rng, absl::Span<uint32_t> numbers) {
  static const internal_selection::PhiloxLoop fill =
      internal_selection::PhiloxLoopFor(BestInstructionSet());
  const auto used = [rng] { return rng->state()[2]; };
  size_t at = 0;
  for (; at < numbers.size() && used() < 4; ++at) numbers[at] = rng->Next32();
  const size_t blocks = (numbers.size() - at) / 4;
  const auto [key, next_block, all_used] = rng->state();
  fill(key, next_block, blocks, numbers.data() + at);
  rng->set_state({key, next_block + blocks, all_used});
  for (at += 4 * blocks; at < numbers.size(); ++at) numbers[at] = rng->Next32();
}

}  // namespace ding
