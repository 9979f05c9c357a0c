#include "ding_worker/env/game_spec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// "obs/board" of player 1 -> "obs/1/board", "action" -> "action/1".
std::string NameOfPlayer(absl::string_view name, int player) {
  const size_t slash = std::min(name.find('/'), name.size());
  return absl::StrCat(name.substr(0, slash), "/", player, name.substr(slash));
}

// The inverse of NameOfPlayer() for player 0.
std::string NameOfOne(absl::string_view name) {
  const size_t slash = name.find('/');
  return absl::StrCat(name.substr(0, slash), name.substr(slash + 2));
}

absl::StatusOr<SpecPtr> ForAll(const Spec& player, int players) {
  std::vector<FieldSpec> fields;
  for (int i = 0; i < players; ++i) {
    for (FieldSpec field : player.fields()) {
      field.name = NameOfPlayer(field.name, i);
      fields.push_back(std::move(field));
    }
  }
  return MakeSpec(std::move(fields));
}

SpecPtr ForOne(const Spec& game, int players) {
  std::vector<FieldSpec> fields;
  for (int i = 0; i < game.size() / players; ++i) {
    fields.push_back(game.field(i));
    fields.back().name = NameOfOne(game.field(i).name);
  }
  absl::StatusOr<SpecPtr> spec = MakeSpec(std::move(fields));
  DING_CHECK(spec.ok()) << spec.status().ToString();
  return *std::move(spec);
}

}  // namespace

absl::StatusOr<EnvSpec> GameSpec(const EnvSpec& player, int players) {
  DING_RETURN_IF_ERROR(ValidateEnvSpec(player));
  if (player.players != 1 || players < 2) {
    return absl::InvalidArgumentError(absl::StrCat("env '", player.name, "': a game of ", players,
                                                   " players, each of which is ", player.players,
                                                   "; expected at least 2, each of which is 1"));
  }
  EnvSpec game = player;
  game.players = players;
  DING_ASSIGN_OR_RETURN(game.observation, ForAll(*player.observation, players));
  DING_ASSIGN_OR_RETURN(game.action, ForAll(*player.action, players));
  return game;
}

EnvSpec PlayerSpec(const EnvSpec& game) {
  EnvSpec player = game;
  if (game.players == 1) return player;
  player.players = 1;
  player.observation = ForOne(*game.observation, game.players);
  player.action = ForOne(*game.action, game.players);
  return player;
}

}  // namespace ding
