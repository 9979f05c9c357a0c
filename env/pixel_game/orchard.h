// Orchard: a small game of pixels, for networks that look at images. Fruit falls from the trees,
// and a basket moves along the ground: catch what is ripe, let pass what is rotten.
//
//     . . . . . . . . . .     row 0: where fruit appears
//     . . . . . o . . . .     o ripe (255)
//     . . . . . . . . . .
//     . . x . . . . . . .     x rotten (85)
//     ...
//     . . . _ . . . . . .     row 9: the basket (170)
//
// Rules. A new piece of fruit appears in row 0 every 5 steps, beginning with the reset, 20 in all:
// 15 ripe ones and 5 rotten ones, in an order drawn from the seed. The first is in any column, each
// further one at most 4 columns beside the one before; all fall one row per step. The basket starts
// in any column; the actions move it 0: left, 1: not, 2: right by one column, as far as there is
// one, before the fruit falls. What falls into row 9 is gone; in the basket's column it is caught:
// reward 1 if ripe, -1 if rotten. The episode terminates when the last piece is down, after 104
// steps.
//
// Best possible return: 15, in every episode, and what is in the picture is enough for it
// (pixel_game_test computes both). Who never moves gets about 1.
//
// Observation "obs": uint8 [1, 10, 10], one picture; "Orchard-v0-stack4": uint8 [4, 10, 10], the
// last four, the oldest first (frame_stack_axis 0); at a reset they are all the first. A piece that
// lies in the basket is drawn as the basket. The stack shows nothing that one picture does not: it
// is for what stores and reads stacks.
//
// Threads: as Env.   Errors: parameters, a step after the end, a saved state that is no game's.
#ifndef DING_WORKER_ENV_PIXEL_GAME_ORCHARD_H_
#define DING_WORKER_ENV_PIXEL_GAME_ORCHARD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/env/env.h"

namespace ding {

inline constexpr int kOrchardSize = 10;     // rows and columns
inline constexpr int kOrchardPeriod = 5;    // steps from one piece of fruit to the next
inline constexpr int kOrchardRipe = 15;     // pieces; the best possible return
inline constexpr int kOrchardRotten = 5;    // pieces
inline constexpr int kOrchardMaxShift = 4;  // columns from one piece to the next
inline constexpr int kOrchardLength =       // steps of an episode
    kOrchardPeriod * (kOrchardRipe + kOrchardRotten - 1) + kOrchardSize - 1;

// `frames` pictures per observation.
absl::StatusOr<std::unique_ptr<Env>> CreateOrchard(absl::string_view name, int frames);

}  // namespace ding

#endif  // DING_WORKER_ENV_PIXEL_GAME_ORCHARD_H_
