#include "ding_worker/env/board_games/board_game_env.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/classic_control/raster.h"
#include "ding_worker/env/env.h"

namespace ding {
namespace {

constexpr char kFirstPlayer[] = "first_player";
constexpr char kOpeningMoves[] = "opening_moves";

template <typename Position>
absl::Status CheckOptions(const BoardGameOptions& options) {
  if (options.first_player.has_value() && *options.first_player != 0 &&
      *options.first_player != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFirstPlayer, " is ", *options.first_player, ", expected 0 or 1"));
  }
  if (options.opening_moves < 0 || options.opening_moves > Position::kMaxOpening) {
    return absl::InvalidArgumentError(absl::StrCat(kOpeningMoves, " is ", options.opening_moves,
                                                   ", expected 0..", Position::kMaxOpening, " in ",
                                                   Position::kName));
  }
  return absl::OkStatus();
}

// Returns `options` with the values that the parameters of a reset replace.
template <typename Position>
absl::StatusOr<BoardGameOptions> WithParams(BoardGameOptions options, const NamedValues& params) {
  for (const auto& [name, value] : params) {
    const int number = static_cast<int>(value);
    if (static_cast<double>(number) != value) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", name, "' is ", value, ", expected a whole number"));
    }
    if (name == kFirstPlayer) {
      options.first_player = number;
    } else if (name == kOpeningMoves) {
      options.opening_moves = number;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown parameter '", name, "', expected '",
                                                     kFirstPlayer, "' or '", kOpeningMoves, "'"));
    }
  }
  DING_RETURN_IF_ERROR(CheckOptions<Position>(options));
  return options;
}

template <typename Position>
absl::StatusOr<EnvSpec> PlayerSpecOf(absl::string_view name, int64_t max_episode_steps) {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {Position::kMoves + 1};
  EnvSpec spec;
  spec.name = std::string(name);
  DING_ASSIGN_OR_RETURN(
      spec.observation,
      MakeSpec({Box("obs/board", {3, Position::kRows, Position::kColumns}, {0}, {1}), mask}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", Position::kMoves + 1)}));
  spec.reward_low = -1;
  spec.reward_high = 1;
  spec.max_episode_steps = max_episode_steps;
  return spec;
}

// One game: which player has which side, and the position.
template <typename Position>
class Match {
 public:
  // After an error the game is unchanged.
  absl::Status Begin(const EpisodeStart& start, const BoardGameOptions& defaults) {
    DING_ASSIGN_OR_RETURN(const BoardGameOptions options,
                          WithParams<Position>(defaults, start.params));
    position_ = Position();
    first_player_ =
        options.first_player.has_value()
            ? *options.first_player
            : static_cast<int>(Rng(start.seed, "board_game/first_player").UniformInt(2));
    begun_ = true;
    Rng rng(start.seed, "board_game/opening");
    const RandomBoardPlayer<Position> random;
    for (int i = 0; i < options.opening_moves; ++i) position_.Play(random.Choose(position_, &rng));
    return absl::OkStatus();
  }

  const Position& position() const { return position_; }
  bool begun() const { return begun_; }
  bool over() const { return position_.over(); }
  int SideOf(int player) const { return player == first_player_ ? 0 : 1; }
  bool IsTurnOf(int player) const { return !over() && position_.to_move() == SideOf(player); }
  // Returns 1 for a win, -1 for a loss, else 0.
  float RewardOf(int player) const {
    if (position_.HasWon(SideOf(player))) return 1;
    return position_.HasWon(1 - SideOf(player)) ? -1 : 0;
  }

  void Play(int move) { position_.Play(move); }

  // Checks that `player` may take `action` now. The game must be running.
  absl::Status CheckAction(int player, int64_t action) const {
    const bool turn = IsTurnOf(player);
    const bool legal =
        turn ? action < Position::kMoves && position_.CanPlay(static_cast<int>(action))
             : action == Position::kMoves;
    if (legal) return absl::OkStatus();
    return absl::InvalidArgumentError(
        turn ? absl::StrCat(Position::kName, ": player ", player, " cannot play ", action, " here")
             : absl::StrCat(Position::kName, ": player ", player, " has to wait (action ",
                            Position::kMoves, "), but its action is ", action));
  }

  void Show(int player, int first_field, const RowRef& obs) const {
    ShowBoard(position_, SideOf(player), obs.field<float>(first_field),
              obs.field<uint8_t>(first_field + 1));
  }

  absl::Status SaveState(StateWriter* writer) const {
    const int64_t stones[] = {static_cast<int64_t>(position_.stones(0)),
                              static_cast<int64_t>(position_.stones(1))};
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("stones", stones));
    DING_RETURN_IF_ERROR(writer->WriteInt("first_player", first_player_));
    return writer->WriteInt("begun", begun_ ? 1 : 0);
  }

  absl::Status LoadState(StateReader* reader) {
    int64_t stones[2];
    DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("stones", absl::MakeSpan(stones)));
    DING_ASSIGN_OR_RETURN(const int64_t first_player, reader->ReadInt("first_player"));
    DING_ASSIGN_OR_RETURN(const int64_t begun, reader->ReadInt("begun"));
    const std::optional<Position> position =
        Position::FromStones(static_cast<uint64_t>(stones[0]), static_cast<uint64_t>(stones[1]));
    if (!position.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'stones' are ", stones[0], " and ", stones[1],
                       ", expected a position that can occur in a game of ", Position::kName));
    }
    if (first_player != 0 && first_player != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'first_player' is ", first_player, ", expected 0 or 1"));
    }
    position_ = *position;
    first_player_ = static_cast<int>(first_player);
    begun_ = begun != 0;
    return absl::OkStatus();
  }

  // Draws side 0 in red and side 1 in yellow.
  Image Draw() const {
    constexpr int kCell = 60;
    constexpr Color kColors[] = {{204, 51, 51}, {230, 190, 40}};
    constexpr double kWidth = Position::kColumns * kCell;
    constexpr double kHeight = Position::kRows * kCell;
    Canvas canvas(Position::kColumns * kCell, Position::kRows * kCell);
    for (double x = kCell; x < kWidth; x += kCell) canvas.Line({x, 0}, {x, kHeight}, 2, kBlack);
    for (double y = kCell; y < kHeight; y += kCell) canvas.Line({0, y}, {kWidth, y}, 2, kBlack);
    for (int row = 0; row < Position::kRows; ++row) {
      for (int column = 0; column < Position::kColumns; ++column) {
        const Point center = {(column + 0.5) * kCell, kHeight - (row + 0.5) * kCell};
        for (const int side : {0, 1}) {
          if (position_.Has(side, row, column)) canvas.Circle(center, 0.4 * kCell, kColors[side]);
        }
      }
    }
    return std::move(canvas).image();
  }

 private:
  Position position_;
  int first_player_ = 0;
  bool begun_ = false;
};

absl::Status NoEpisode() {
  return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
}

template <typename Position>
class GameOfTwo final : public Env {
 public:
  GameOfTwo(EnvSpec spec, const BoardGameOptions& options)
      : spec_(std::move(spec)), options_(options) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_RETURN_IF_ERROR(match_.Begin(start, options_));
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (!match_.begun() || match_.over()) return NoEpisode();
    for (const int player : {0, 1}) {
      DING_RETURN_IF_ERROR(match_.CheckAction(player, action.scalar<int64_t>(player)));
    }
    match_.Play(static_cast<int>(action.scalar<int64_t>(match_.IsTurnOf(0) ? 0 : 1)));
    Show(obs);
    result->terminated = match_.over();
    result->reward = match_.RewardOf(0);
    result->other_rewards[0] = match_.RewardOf(1);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override { return match_.SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return match_.LoadState(reader); }
  absl::StatusOr<Image> Render() override { return match_.Draw(); }

 private:
  void Show(const RowRef& obs) const {
    match_.Show(0, 0, obs);
    match_.Show(1, 2, obs);
  }

  const EnvSpec spec_;
  const BoardGameOptions options_;
  Match<Position> match_;
};

template <typename Position>
class GameOfOne final : public Env {
 public:
  GameOfOne(EnvSpec spec, std::shared_ptr<const BoardPlayer<Position>> opponent,
            const BoardGameOptions& options)
      : spec_(std::move(spec)), opponent_(std::move(opponent)), options_(options) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_RETURN_IF_ERROR(match_.Begin(start, options_));
    rng_ = Rng(start.seed, "board_game/opponent");
    Answer();
    match_.Show(0, 0, obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (!match_.begun() || match_.over()) return NoEpisode();
    const auto move = action.scalar<int64_t>(0);
    DING_RETURN_IF_ERROR(match_.CheckAction(0, move));
    match_.Play(static_cast<int>(move));
    Answer();
    match_.Show(0, 0, obs);
    result->terminated = match_.over();
    result->reward = match_.RewardOf(0);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(match_.SaveState(writer));
    return writer->WriteRng("opponent", rng_);
  }
  absl::Status LoadState(StateReader* reader) override {
    Rng rng = rng_;
    DING_RETURN_IF_ERROR(reader->ReadRng("opponent", &rng));
    DING_RETURN_IF_ERROR(match_.LoadState(reader));
    rng_ = rng;
    return absl::OkStatus();
  }
  absl::StatusOr<Image> Render() override { return match_.Draw(); }

 private:
  void Answer() {
    if (match_.IsTurnOf(1)) match_.Play(opponent_->Choose(match_.position(), &rng_));
  }

  const EnvSpec spec_;
  const std::shared_ptr<const BoardPlayer<Position>> opponent_;
  const BoardGameOptions options_;
  Match<Position> match_;
  Rng rng_{0, "board_game/opponent"};
};

}  // namespace

template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGame(const BoardGameOptions& options) {
  DING_RETURN_IF_ERROR(
      Annotate(CheckOptions<Position>(options), absl::StrCat("env '", Position::kName, "'")));
  DING_ASSIGN_OR_RETURN(const EnvSpec player,
                        PlayerSpecOf<Position>(Position::kName, Position::kCells));
  DING_ASSIGN_OR_RETURN(EnvSpec spec, GameSpec(player, 2));
  return std::make_unique<GameOfTwo<Position>>(std::move(spec), options);
}

template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGameAgainst(
    absl::string_view name, std::shared_ptr<const BoardPlayer<Position>> opponent,
    const BoardGameOptions& options) {
  DING_RETURN_IF_ERROR(Annotate(CheckOptions<Position>(options), absl::StrCat("env '", name, "'")));
  DING_ASSIGN_OR_RETURN(EnvSpec spec, PlayerSpecOf<Position>(name, (Position::kCells + 1) / 2));
  return std::make_unique<GameOfOne<Position>>(std::move(spec), std::move(opponent), options);
}

template absl::StatusOr<std::unique_ptr<Env>> CreateBoardGame<TicTacToe>(const BoardGameOptions&);
template absl::StatusOr<std::unique_ptr<Env>> CreateBoardGame<ConnectFour>(const BoardGameOptions&);
template absl::StatusOr<std::unique_ptr<Env>> CreateBoardGameAgainst<TicTacToe>(
    absl::string_view, std::shared_ptr<const BoardPlayer<TicTacToe>>, const BoardGameOptions&);
template absl::StatusOr<std::unique_ptr<Env>> CreateBoardGameAgainst<ConnectFour>(
    absl::string_view, std::shared_ptr<const BoardPlayer<ConnectFour>>, const BoardGameOptions&);

}  // namespace ding
