#include "ding_worker/env/env.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr absl::string_view kObs = "obs";
constexpr absl::string_view kInfoPrefix = "info/";
// Every env keeps sums of the components, and every row has all of them.
constexpr int64_t kMaxRewardComponents = 1 << 16;
// More are a slip. The specs of all players are kept side by side.
constexpr int kMaxPlayers = 1 << 10;

// "obs" and "obs/<name>" of an env for one; "obs/1" and "obs/1/<name>" of player 1 of a game.
std::string Prefix(absl::string_view kind, const EnvSpec& spec, int player) {
  return spec.players == 1 ? std::string(kind) : absl::StrCat(kind, "/", player);
}

bool IsNamed(absl::string_view name, absl::string_view prefix) {
  return absl::ConsumePrefix(&name, prefix) &&
         (name.empty() || (name[0] == '/' && name.size() > 1));
}

absl::Status CheckObservation(const FieldSpec& field, absl::string_view prefix) {
  if (!IsNamed(field.name, prefix)) {
    return absl::InvalidArgumentError(absl::StrCat("observation field '", field.name,
                                                   "' must be named '", prefix, "' or '", prefix,
                                                   "/<name>'"));
  }
  if (field.dtype == DType::kFloat64) {
    return absl::InvalidArgumentError(
        absl::StrCat("observation field '", field.name, "' is float64; narrow it to float32"));
  }
  return absl::OkStatus();
}

// The number of elements of an action mask: one per category of each action element. Nullopt:
// beyond 64 bits.
std::optional<int64_t> MaskWidth(const FieldSpec& action) {
  if (action.high.empty()) return CheckedProduct(action.num_elements(), action.num_categories);
  std::optional<int64_t> width = 0;
  for (size_t i = 0; i < action.high.size() && width.has_value(); ++i) {
    width = CheckedSum(*width, static_cast<int64_t>(action.high[i]) + 1);
  }
  return width;
}

absl::Status CheckActionField(const FieldSpec& action) {
  if (action.is_discrete() || action.dtype == DType::kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("action is ", action.DebugString(), ", expected discrete or float32"));
}

absl::Status CheckMask(const FieldSpec& mask, const FieldSpec& action) {
  if (!action.is_discrete()) {
    return absl::InvalidArgumentError(absl::StrCat("there is an action mask '", mask.name,
                                                   "', but action is ", action.DebugString(),
                                                   ", expected discrete"));
  }
  const Shape width = {MaskWidth(action).value_or(-1)};
  if (mask.dtype == DType::kBool && mask.shape == width) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("action mask '", mask.name, "' is ",
                                                 mask.DebugString(), ", expected ",
                                                 DTypeName(DType::kBool), ShapeString(width)));
}

// Checks that the observation has the fields of player 0, then those of player 1, ..., at least one
// each.
absl::Status CheckObservations(const EnvSpec& spec) {
  int player = 0;
  bool any = false;  // whether `player` has a field
  for (const FieldSpec& field : spec.observation->fields()) {
    if (any && player + 1 < spec.players && IsNamed(field.name, Prefix(kObs, spec, player + 1))) {
      ++player;
    }
    DING_RETURN_IF_ERROR(CheckObservation(field, Prefix(kObs, spec, player)));
    any = true;
  }
  if (player + 1 == spec.players) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there are observation fields of ", player + 1, " players, expected '",
                   Prefix(kObs, spec, player + 1), "' or '", Prefix(kObs, spec, player + 1),
                   "/<name>' after them: there are ", spec.players, " players"));
}

// Checks the action of a player, and its mask.
absl::Status CheckPlayer(const EnvSpec& spec, int player) {
  const FieldSpec& action = spec.action->field(player);
  const std::string name = Prefix("action", spec, player);
  if (action.name != name) {
    return absl::InvalidArgumentError(
        absl::StrCat("action field '", action.name, "', expected '", name, "'"));
  }
  DING_RETURN_IF_ERROR(CheckActionField(action));
  const int mask = ActionMaskField(spec, player);
  return mask < 0 ? absl::OkStatus() : CheckMask(spec.observation->field(mask), action);
}

absl::Status CheckInfoNames(const Spec& info) {
  for (const FieldSpec& field : info.fields()) {
    if (field.name.size() > kInfoPrefix.size() && absl::StartsWith(field.name, kInfoPrefix))
      continue;
    return absl::InvalidArgumentError(
        absl::StrCat("info field '", field.name, "' must be named '", kInfoPrefix, "<name>'"));
  }
  return absl::OkStatus();
}

// "obs/board" of player 1 -> "obs/1/board", "action" -> "action/1".
std::string NameOfPlayer(absl::string_view name, int player) {
  const size_t slash = std::min(name.find('/'), name.size());
  return absl::StrCat(name.substr(0, slash), "/", player, name.substr(slash));
}

// The inverse of NameOfPlayer().
std::string NameOfOne(absl::string_view name) {
  const size_t slash = name.find('/');
  const size_t rest = std::min(name.find('/', slash + 1), name.size());
  return absl::StrCat(name.substr(0, slash), name.substr(rest));
}

void Append(const Spec& of_one, int player, std::vector<FieldSpec>* fields) {
  for (FieldSpec field : of_one.fields()) {
    field.name = NameOfPlayer(field.name, player);
    fields->push_back(std::move(field));
  }
}

SpecPtr ForOne(const Spec& game, int begin, int end) {
  std::vector<FieldSpec> fields;
  for (int i = begin; i < end; ++i) {
    fields.push_back(game.field(i));
    fields.back().name = NameOfOne(game.field(i).name);
  }
  absl::StatusOr<SpecPtr> spec = MakeSpec(std::move(fields));
  DING_CHECK(spec.ok()) << spec.status().ToString();
  return *std::move(spec);
}

bool IsSameKind(const FieldSpec& a, const FieldSpec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.num_categories == b.num_categories;
}

// Adds what differs between the fields of two players, and at the end their order.
void AddDifferences(const Spec& first, const Spec& other, const std::string& of_first,
                    const std::string& of_other, std::vector<std::string>* differences) {
  const size_t before = differences->size();
  for (const FieldSpec& field : first.fields()) {
    const std::optional<int> same = other.Find(field.name);
    if (!same.has_value()) {
      differences->push_back(absl::StrCat("'", field.name, "' is ", field.DebugString(), " for ",
                                          of_first, ", missing for ", of_other));
    } else if (!IsSameKind(field, other.field(*same))) {
      differences->push_back(absl::StrCat("'", field.name, "' is ", field.DebugString(), " for ",
                                          of_first, ", ", other.field(*same).DebugString(), " for ",
                                          of_other));
    }
  }
  for (const FieldSpec& field : other.fields()) {
    if (first.Find(field.name).has_value()) continue;
    differences->push_back(absl::StrCat("'", field.name, "' is missing for ", of_first, ", ",
                                        field.DebugString(), " for ", of_other));
  }
  for (int i = 0; i < first.size() && differences->size() == before; ++i) {
    if (first.field(i).name == other.field(i).name) continue;
    differences->push_back(absl::StrCat("field ", i, " is '", first.field(i).name, "' for ",
                                        of_first, ", '", other.field(i).name, "' for ", of_other));
  }
}

}  // namespace

void InfoRow::Clear(const SpecPtr& spec) {
  if (spec_ != spec) {
    spec_ = spec;
    const int64_t size = spec == nullptr ? 0 : Offset(*spec, spec->size());
    words_.resize(static_cast<size_t>(size) / sizeof(uint64_t));
  }
  std::fill(words_.begin(), words_.end(), 0);
}

int64_t InfoRow::Offset(const Spec& spec, int index) {
  constexpr int64_t kWord = sizeof(uint64_t);
  int64_t offset = 0;
  for (int i = 0; i < index; ++i) offset += (spec.row_bytes(i) + kWord - 1) / kWord * kWord;
  return offset;
}

absl::Status Env::SaveState(StateWriter* /*writer*/) const {
  return absl::UnimplementedError(absl::StrCat(spec().name, " cannot save its state"));
}

absl::Status Env::LoadState(StateReader* /*reader*/) {
  return absl::UnimplementedError(absl::StrCat(spec().name, " cannot load its state"));
}

absl::StatusOr<Image> Env::Render() {
  return absl::UnimplementedError(
      absl::StrCat(spec().name, " cannot render: its class has no Render()"));
}

int ActionMaskField(const EnvSpec& spec, int player) {
  const std::string name =
      absl::StrCat(Prefix(kObs, spec, player), absl::StripPrefix(kActionMaskField, kObs));
  return spec.observation->Find(name).value_or(-1);
}

int FirstObsField(const EnvSpec& spec, int player) {
  if (player == 0) return 0;
  DING_CHECK(player > 0 && player < spec.players)
      << "there is no player " << player << " in env '" << spec.name << "', only " << spec.players;
  const std::string prefix = Prefix(kObs, spec, player);
  int field = 0;
  while (!IsNamed(spec.observation->field(field).name, prefix)) ++field;
  return field;
}

absl::Status ValidateEnvSpec(const EnvSpec& spec) {
  const auto error = [&spec](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("env '", spec.name, "': ", parts...));
  };
  if (spec.players < 1) return error("players is ", spec.players, ", expected at least 1");
  if (spec.observation == nullptr || spec.observation->size() == 0) {
    return error("its spec has no observation fields");
  }
  if (spec.action == nullptr || spec.action->size() != spec.players ||
      (spec.players == 1 && spec.action->field(0).name != "action")) {
    return spec.players == 1 ? error("its spec must have exactly one action field, named 'action'")
                             : error("its spec must have exactly one action field for each of ",
                                     spec.players, " players");
  }
  if (spec.reward_shape.size() > 1 ||
      (!spec.reward_shape.empty() &&
       (spec.reward_shape[0] < 1 || spec.reward_shape[0] > kMaxRewardComponents))) {
    return error("reward_shape is ", ShapeString(spec.reward_shape),
                 ", expected [] or [R] with 1 to ", kMaxRewardComponents, " components");
  }
  if (spec.players > 1 && !spec.reward_shape.empty()) {
    return error("it is a game of ", spec.players, " players with reward_shape ",
                 ShapeString(spec.reward_shape),
                 ", expected []: the players of a game have one reward each");
  }
  absl::Status status = CheckObservations(spec);
  for (int player = 0; player < spec.players; ++player) status.Update(CheckPlayer(spec, player));
  if (spec.info != nullptr) status.Update(CheckInfoNames(*spec.info));
  if (!status.ok()) return error(status.message());
  if (spec.max_episode_steps < 0) {
    return error("max_episode_steps is ", spec.max_episode_steps, ", expected 0 or more");
  }
  return absl::OkStatus();
}

absl::Status CheckRewardComponents(const EnvSpec& spec, const StepResult& result) {
  const int64_t found = static_cast<int64_t>(result.reward_components.size());
  if (found != spec.reward_components()) {
    return absl::InternalError(absl::StrCat(found, " reward_components, expected ",
                                            spec.reward_components(), " as its reward_shape says"));
  }
  if (found == 0 || result.reward == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("reward is ", result.reward, " beside ", found,
                                          " reward_components, expected that it stays 0"));
}

absl::Status CheckPlayerEnds(const EnvSpec& spec, const StepResult& result) {
  const size_t expected = spec.players > 1 ? static_cast<size_t>(spec.players) : 0;
  if (result.player_ends.size() == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(result.player_ends.size(), " player_ends, expected ",
                                          expected, " for ", spec.players,
                                          spec.players > 1 ? " players" : " player"));
}

absl::Status CheckInfoRow(const EnvSpec& spec, const StepResult& result) {
  const SpecPtr& found = result.info_row.spec();
  if (found == spec.info) return absl::OkStatus();
  if (found == nullptr || spec.info == nullptr) {
    return absl::InternalError(absl::StrCat(
        "the info of a step has ", found == nullptr ? "no fields" : found->DebugString(),
        ", expected ", spec.info == nullptr ? "none" : spec.info->DebugString(), " as declared"));
  }
  const absl::Status same = CheckSameLayout(*spec.info, *found, "the info of a step");
  return absl::Status(same.ok() ? absl::StatusCode::kOk : absl::StatusCode::kInternal,
                      same.message());
}

absl::StatusOr<EnvSpec> GameSpec(const EnvSpec& player, int players) {
  if (players > kMaxPlayers) {
    return absl::InvalidArgumentError(absl::StrCat("env '", player.name, "': a game of ", players,
                                                   " players, expected at most ", kMaxPlayers));
  }
  return GameSpec(std::vector<EnvSpec>(static_cast<size_t>(std::max(0, players)), player));
}

absl::StatusOr<EnvSpec> GameSpec(const std::vector<EnvSpec>& players) {
  const int count = static_cast<int>(players.size());
  if (count < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", players.empty() ? "" : players[0].name, "': a game of ", count,
                     count == 1 ? " player" : " players", ", expected at least 2"));
  }
  std::vector<FieldSpec> observation;
  std::vector<FieldSpec> action;
  for (int i = 0; i < count; ++i) {
    const EnvSpec& player = players[static_cast<size_t>(i)];
    DING_RETURN_IF_ERROR(ValidateEnvSpec(player));
    if (player.players != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("env '", player.name, "': a game whose player ", i, " is ", player.players,
                       " players, expected that each is 1"));
    }
    Append(*player.observation, i, &observation);
    Append(*player.action, i, &action);
  }
  EnvSpec game = players[0];
  game.players = count;
  DING_ASSIGN_OR_RETURN(game.observation, MakeSpec(std::move(observation)));
  DING_ASSIGN_OR_RETURN(game.action, MakeSpec(std::move(action)));
  DING_RETURN_IF_ERROR(ValidateEnvSpec(game));
  return game;
}

EnvSpec PlayerSpec(const EnvSpec& game, int player) {
  EnvSpec spec = game;
  if (game.players == 1) return spec;
  DING_CHECK(player >= 0 && player < game.players)
      << "there is no player " << player << " in env '" << game.name << "', only " << game.players;
  spec.players = 1;
  const int end =
      player + 1 < game.players ? FirstObsField(game, player + 1) : game.observation->size();
  spec.observation = ForOne(*game.observation, FirstObsField(game, player), end);
  spec.action = ForOne(*game.action, player, player + 1);
  return spec;
}

absl::Status CheckSamePlayers(const EnvSpec& game, int first) {
  if (first < 0 || first >= game.players) {
    return absl::InvalidArgumentError(absl::StrCat("there is no player ", first, " in env '",
                                                   game.name, "', only ", game.players));
  }
  std::vector<std::string> differences;
  const EnvSpec expected = PlayerSpec(game, first);
  for (int player = first + 1; player < game.players; ++player) {
    const EnvSpec found = PlayerSpec(game, player);
    const std::string of_first = absl::StrCat("player ", first);
    const std::string of_other = absl::StrCat("player ", player);
    AddDifferences(*expected.observation, *found.observation, of_first, of_other, &differences);
    AddDifferences(*expected.action, *found.action, of_first, of_other, &differences);
  }
  return ProblemsToStatus(differences,
                          absl::StrCat("one policy cannot play all players of env '", game.name,
                                       "', which see or do different things"));
}

}  // namespace ding
