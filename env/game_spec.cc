#include "ding_worker/env/game_spec.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// More are a slip. The specs of all players are kept side by side.
constexpr int kMaxPlayers = 1 << 10;

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
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("one policy cannot play all players of env '", game.name,
                   "', which see or do different things: ", absl::StrJoin(differences, "; ")));
}

}  // namespace ding
