#include "ding_worker/collector/core/turn_transitions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A row of a test: its id, whether it has a choice, and its reward.
struct Row {
  float id = 0;
  bool choice = true;
  float reward = 0;
};

// Consecutive rows of one stream, and the observation after them.
struct Piece {
  int64_t stream = 0;
  int64_t first_step = 0;
  std::vector<Row> rows;
  SegmentEnd end = SegmentEnd::kCut;
  Row after;
};

EnvSpec PlayerOf(bool with_mask) {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {3};
  EnvSpec spec;
  spec.name = "game";
  spec.observation =
      with_mask ? *MakeSpec({Box("obs/id", {}), mask}) : *MakeSpec({Box("obs/id", {})});
  spec.action = *MakeSpec({Discrete("action", 3)});
  return spec;
}

TurnTransitions MakeMoves(bool with_mask = true) {
  const EnvSpec player = PlayerOf(with_mask);
  return *TurnTransitions::Create(player, player.action);
}

void ShowObs(const Row& row, bool with_mask, const BatchBuilder& to, size_t index) {
  to.column<float>(0)[index] = row.id;
  if (!with_mask) return;
  for (size_t i = 0; i < 3; ++i) to.column<uint8_t>(1)[3 * index + i] = row.choice || i == 2;
}

SegmentBatch ToBatch(const std::vector<Piece>& pieces, bool with_mask = true) {
  const EnvSpec player = PlayerOf(with_mask);
  const TrajLayout layout = *TrajLayout::Create(player.observation, player.action, false);
  int64_t size = 0;
  for (const Piece& piece : pieces) size += static_cast<int64_t>(piece.rows.size());
  BatchBuilder rows = *BatchBuilder::Create(layout.row, std::max<int64_t>(1, size));
  BatchBuilder finals = *BatchBuilder::Create(layout.observation, 1 + pieces.size());
  SegmentBatch data;
  size_t row = 0;
  for (const Piece& piece : pieces) {
    data.segments.push_back({piece.stream, piece.first_step, static_cast<int64_t>(row),
                             static_cast<int64_t>(piece.rows.size()), piece.end});
    ShowObs(piece.after, with_mask, finals, data.segments.size() - 1);
    for (const Row& shown : piece.rows) {
      ShowObs(shown, with_mask, rows, row);
      rows.column<float>(layout.reward)[row] = shown.reward;
      rows.column<int64_t>(layout.collect_iter)[row] = 7;
      rows.column<int64_t>(layout.observation->size())[row++] = static_cast<int64_t>(shown.id);
    }
  }
  data.rows = std::move(rows).Seal(size);
  data.final_obs = std::move(finals).Seal(static_cast<int64_t>(pieces.size()));
  return data;
}

// Formats one line per segment with ids and rewards: "stream 0, from 3: 5(1) 8(0) then 9 cut".
std::vector<std::string> Show(const absl::StatusOr<SegmentBatch>& data) {
  if (!data.ok()) return {data.status().ToString()};
  EXPECT_THAT(ValidateSegments(*data), IsOk());
  std::vector<std::string> lines;
  for (size_t i = 0; i < data->segments.size(); ++i) {
    const Segment& segment = data->segments[i];
    std::string line = absl::StrCat("stream ", segment.stream, ", from ", segment.first_step, ":");
    for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
      const auto at = static_cast<size_t>(row);
      EXPECT_EQ(data->rows.column<int64_t>("action")[at], data->rows.column<float>("obs/id")[at]);
      EXPECT_EQ(data->rows.column<int64_t>("collect_iter")[at], 7);
      absl::StrAppend(&line, " ", data->rows.column<float>("obs/id")[at], "(",
                      data->rows.column<float>("reward")[at], ")");
    }
    constexpr const char* kEnds[] = {"cut", "terminated", "truncated"};
    absl::StrAppend(&line, " then ", data->final_obs.column<float>("obs/id")[i], " ",
                    kEnds[static_cast<int>(segment.end)]);
    lines.push_back(line);
  }
  return lines;
}

constexpr bool kWait = false;

TEST(TurnTransitionsTest, LinksTheChoicesOfAPlayer) {
  TurnTransitions moves = MakeMoves();
  const SegmentBatch first = ToBatch({{0,
                                       0,
                                       {{1}, {2, kWait}, {3}, {4, kWait}, {5, true, 1}},
                                       SegmentEnd::kTerminated,
                                       {6, kWait}}});
  const SegmentBatch second = ToBatch({{1,
                                        0,
                                        {{11, kWait}, {12}, {13, kWait}, {14}, {15, kWait, -1}},
                                        SegmentEnd::kTerminated,
                                        {16, kWait}}});
  EXPECT_THAT(Show(moves.Take({first, second})),
              ElementsAre("stream 0, from 0: 1(0) 3(0) 5(1) then 6 terminated",
                          "stream 1, from 0: 12(0) 14(-1) then 16 terminated"));
  EXPECT_EQ(moves.held(), 0);
}

TEST(TurnTransitionsTest, RewardsOfRowsWithoutAChoiceAddUp) {
  TurnTransitions moves = MakeMoves();
  EXPECT_THAT(
      Show(moves.Take({ToBatch({{4,
                                 0,
                                 {{1, kWait, 100}, {2, true, 1}, {3, kWait, 2}, {4, kWait, 4}, {5}},
                                 SegmentEnd::kTerminated,
                                 {6}}})})),
      ElementsAre("stream 4, from 0: 2(7) 5(0) then 6 terminated"));
}

TEST(TurnTransitionsTest, AChoiceWaitsForItsNextObservation) {
  TurnTransitions moves = MakeMoves();
  EXPECT_THAT(
      Show(moves.Take({ToBatch({{0, 0, {{1}, {2, kWait}, {3}}, SegmentEnd::kCut, {4, kWait}}})})),
      ElementsAre("stream 0, from 0: 1(0) then 3 cut"));
  EXPECT_EQ(moves.held(), 1);
  EXPECT_THAT(Show(moves.Take({ToBatch({})})), IsEmpty()) << "nothing came";
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 3, {{4, kWait, 5}}, SegmentEnd::kCut, {5, kWait}}})})),
              IsEmpty());
  EXPECT_EQ(moves.held(), 1);
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 4, {{5, kWait, 1}}, SegmentEnd::kCut, {6}}})})),
              ElementsAre("stream 0, from 1: 3(6) then 6 cut"));
  EXPECT_EQ(moves.held(), 0);
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 5, {{6}}, SegmentEnd::kTerminated, {7, kWait}}})})),
              ElementsAre("stream 0, from 2: 6(0) then 7 terminated"));
}

TEST(TurnTransitionsTest, DoesNotLinkAcrossMissingRows) {
  TurnTransitions moves = MakeMoves();
  ASSERT_THAT(moves.Take({ToBatch({{0, 0, {{1}, {2}}, SegmentEnd::kCut, {3, kWait}}})}), IsOk());
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 3, {{4, kWait, -1}, {5}}, SegmentEnd::kCut, {6}}})})),
              ElementsAre("stream 0, from 2: 5(0) then 6 cut"));
  moves.DropHeld();
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 5, {{6}}, SegmentEnd::kCut, {7, kWait}}})})),
              IsEmpty());
  moves.DropHeld();
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 6, {{7, kWait}}, SegmentEnd::kTerminated, {8, kWait}},
                                        {0, 7, {{9}}, SegmentEnd::kTerminated, {10, kWait}}})})),
              ElementsAre("stream 0, from 4: 9(0) then 10 terminated"));
}

TEST(TurnTransitionsTest, ATruncatedGameNeedsABootstrapValue) {
  TurnTransitions moves = MakeMoves();
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 0, {{1}, {2}}, SegmentEnd::kTruncated, {3}}})})),
              ElementsAre("stream 0, from 0: 1(0) 2(0) then 3 truncated"));
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 2, {{4}, {5}}, SegmentEnd::kTruncated, {6, kWait}}})})),
              ElementsAre("stream 0, from 2: 4(0) then 5 cut"));
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 4, {{7}}, SegmentEnd::kTerminated, {8}}})})),
              ElementsAre("stream 0, from 4: 7(0) then 8 terminated"));
}

TEST(TurnTransitionsTest, WithoutAMaskEveryRowIsAChoice) {
  TurnTransitions moves = MakeMoves(/*with_mask=*/false);
  EXPECT_THAT(
      Show(moves.Take({ToBatch({{0, 0, {{1}, {2, true, 3}}, SegmentEnd::kCut, {4}}}, false)})),
      ElementsAre("stream 0, from 0: 1(0) 2(3) then 4 cut"));
}

TEST(TurnTransitionsTest, RefusesRowsOfAnotherLayoutAndChangesNothing) {
  TurnTransitions moves = MakeMoves();
  const SegmentBatch good = ToBatch({{0, 0, {{1}}, SegmentEnd::kCut, {2, kWait}}});
  EXPECT_THAT(moves.Take({good, ToBatch({{1, 0, {{1}}, SegmentEnd::kCut, {2}}}, false)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows of a game")));
  EXPECT_EQ(moves.held(), 0);
  ASSERT_THAT(moves.Take({good}), IsOk());
  EXPECT_EQ(moves.held(), 1);
}

TEST(TurnTransitionsTest, RefusesAMaskThatDoesNotFitTheAction) {
  EnvSpec player = PlayerOf(true);
  player.action = *MakeSpec({Discrete("action", 4)});
  EXPECT_THAT(TurnTransitions::Create(player, player.action),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("action mask")));
}

// Rows and links are the same for any division of a stream into parts, and for any saves and loads
// in between.
TEST(TurnTransitionsTest, DataInPartsGiveTheSameAsAtOnce) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "pieces");
    // Episodes of two streams.
    std::map<int64_t, std::vector<Piece>> episodes;
    float id = 0;
    for (const int64_t stream : {0, 1}) {
      int64_t step = 0;
      for (int k = 0; k < 6; ++k) {
        Piece episode = {stream, step, {}, SegmentEnd::kTerminated, {}};
        for (int64_t row = 0, length = 1 + rng.UniformInt(8); row < length; ++row) {
          episode.rows.push_back(
              {++id, rng.UniformInt(2) == 0, static_cast<float>(rng.UniformInt(5))});
        }
        if (rng.UniformInt(3) == 0) episode.end = SegmentEnd::kTruncated;
        episode.after = {++id, rng.UniformInt(2) == 0};
        step += static_cast<int64_t>(episode.rows.size());
        episodes[stream].push_back(episode);
      }
    }
    // Links of choices by (stream, step): "id(reward) -> next".
    const auto links_of = [](const std::vector<std::vector<Piece>>& takes, Rng* reload) {
      std::map<std::pair<int64_t, int64_t>, std::string> links;
      TurnTransitions moves = MakeMoves();
      for (const std::vector<Piece>& pieces : takes) {
        const SegmentBatch data = *moves.Take({ToBatch(pieces)});
        for (size_t i = 0; i < data.segments.size(); ++i) {
          const Segment& segment = data.segments[i];
          for (int64_t k = 0; k < segment.length; ++k) {
            const auto row = static_cast<size_t>(segment.begin + k);
            const bool last = k + 1 == segment.length;
            links[{segment.stream, segment.first_step + k}] =
                absl::StrCat(data.rows.column<float>("obs/id")[row], "(",
                             data.rows.column<float>("reward")[row], ") -> ",
                             last ? data.final_obs.column<float>("obs/id")[i]
                                  : data.rows.column<float>("obs/id")[row + 1],
                             last ? static_cast<int>(segment.end) : 0);
          }
        }
        if (reload == nullptr || reload->UniformInt(2) == 0) continue;
        StateDict state;
        EXPECT_THAT(moves.SaveState(&state), IsOk());
        moves = MakeMoves();
        EXPECT_THAT(moves.LoadState(&state), IsOk());
      }
      return links;
    };
    std::vector<std::vector<Piece>> whole = {{}};
    std::vector<std::vector<Piece>> takes;
    for (const auto& [stream, of_stream] : episodes) {
      size_t take = 0;
      for (const Piece& episode : of_stream) {
        whole[0].push_back(episode);
        for (size_t begin = 0; begin < episode.rows.size();) {
          const size_t length =
              std::min<size_t>(1 + rng.UniformInt(4), episode.rows.size() - begin);
          Piece piece = {stream,
                         episode.first_step + static_cast<int64_t>(begin),
                         {},
                         episode.end,
                         episode.after};
          piece.rows.assign(episode.rows.begin() + begin, episode.rows.begin() + begin + length);
          begin += length;
          if (begin < episode.rows.size()) {
            piece.end = SegmentEnd::kCut;
            piece.after = episode.rows[begin];
          }
          if (takes.size() <= take) takes.emplace_back();
          takes[take++].push_back(piece);
        }
      }
    }
    EXPECT_EQ(links_of(takes, &rng), links_of(whole, nullptr));
  }
}

TEST(TurnTransitionsTest, RefusesADamagedStateAndChangesNothing) {
  TurnTransitions moves = MakeMoves();
  ASSERT_THAT(moves.Take({ToBatch({{0, 0, {{1}}, SegmentEnd::kCut, {2, kWait}}})}), IsOk());
  const auto damaged = [](int64_t held_rows, int64_t held) {
    StateDict state;
    EXPECT_THAT(state.WriteSpan<int64_t>("streams", {0, 1, 0, held}), IsOk());
    EXPECT_THAT(state.WriteSpan<double>("rewards", {0.0}), IsOk());
    EXPECT_THAT(state.WriteInt("held_rows", held_rows), IsOk());
    return state;
  };
  StateDict too_many = damaged(2, 0);
  EXPECT_THAT(moves.LoadState(&too_many), StatusIs(absl::StatusCode::kDataLoss));
  StateDict of_nothing = damaged(0, 0);
  EXPECT_THAT(moves.LoadState(&of_nothing), StatusIs(absl::StatusCode::kDataLoss));
  StateDict without_rows = damaged(1, 0);
  EXPECT_THAT(moves.LoadState(&without_rows), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(moves.held(), 1);
  EXPECT_THAT(Show(moves.Take({ToBatch({{0, 1, {{2, kWait, 4}}, SegmentEnd::kTerminated, {3}}})})),
              ElementsAre("stream 0, from 0: 1(4) then 3 terminated"));
}

}  // namespace
}  // namespace ding
