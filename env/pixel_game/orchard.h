// Orchard: a small pixel game for networks that read images. Fruit falls from the trees and a
// basket moves along the ground; it should catch the ripe fruit and avoid the rotten fruit.
//
//     . . . . . . . . . .     row 0: fruit appears here
//     . . . . . o . . . .     o ripe (255)
//     . . . . . . . . . .
//     . . x . . . . . . .     x rotten (85)
//     ...
//     . . . _ . . . . . .     row 9: the basket (170)
//
// Rules: a new piece of fruit appears in row 0 every 5 steps, beginning with the reset; of the 20
// pieces 15 are ripe and 5 rotten, in an order drawn from the seed. The first piece is in any
// column, each further piece at most 4 columns from the one before; all fall one row per step. The
// basket starts in any column. Before the fruit falls, the action moves it by one column: 0 left, 1
// stay, 2 right; at the border it stays. A piece that reaches row 9 is gone; if the basket is in
// its column, it is caught: reward 1 if ripe, -1 if rotten. The episode terminates when the last
// piece is down, after 104 steps.
//
// The best possible return is 15 in every episode, and one picture is enough to reach it
// (pixel_game_test computes both). A basket that never moves gets about 1.
//
// Observation "obs": uint8 [1, 10, 10], one picture; for "Orchard-v0-stack4" uint8 [4, 10, 10], the
// last four pictures, oldest first (frame_stack_axis 0); after a reset all four are the first
// picture. A piece in the basket is drawn as the basket. The stack has no more information than one
// picture: it serves to test code that stores and reads stacks.
//
// Threads: as Env.   Errors: parameters, a step after the end, a saved state that cannot occur.
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

// An observation has `frames` pictures.
absl::StatusOr<std::unique_ptr<Env>> CreateOrchard(absl::string_view name, int frames);

}  // namespace ding

#endif  // DING_WORKER_ENV_PIXEL_GAME_ORCHARD_H_
