#include "ding_worker/interaction/grpc/begun_calls.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"

namespace ding {
namespace {

// Channelz answers in JSON. We need only numbers and names, which contain neither quotes nor
// escapes. TakeField() finds the next field "name":"text" in `*json`, stores its text and removes
// everything up to the end of that text.
bool TakeField(absl::string_view name, absl::string_view* json, absl::string_view* text) {
  size_t at = 0;
  while ((at = json->find(name, at)) != absl::string_view::npos) {
    absl::string_view rest = json->substr(at + name.size());
    at += name.size();
    if (!absl::ConsumePrefix(&rest, "\":\"")) continue;
    *text = rest.substr(0, rest.find('"'));
    json->remove_prefix(static_cast<size_t>(text->data() + text->size() - json->data()));
    return true;
  }
  return false;
}

bool TakeNumber(absl::string_view name, absl::string_view* json, int64_t* number) {
  absl::string_view text;
  return TakeField(name, json, &text) && absl::SimpleAtoi(text, number);
}

bool IsLastPage(absl::string_view json) { return json.find("\"end\":true") != json.npos; }

// Copies the text that gRPC allocated, and frees it.
std::string Take(char* json) {
  const std::string taken = json == nullptr ? "" : json;
  gpr_free(json);
  return taken;
}

int64_t StreamsOfSocket(int64_t socket) {
  const std::string answer = Take(grpc_channelz_get_socket(socket));
  absl::string_view json = answer;
  int64_t streams = 0;
  return TakeNumber("streamsStarted", &json, &streams) ? streams : 0;
}

}  // namespace

std::string PeerOfUri(absl::string_view uri) {
  if (!absl::ConsumePrefix(&uri, "ipv4:")) absl::ConsumePrefix(&uri, "ipv6:");
  std::string peer = absl::StrReplaceAll(uri, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  const size_t scope = peer.find('%');
  if (scope != std::string::npos) peer.erase(scope, peer.find(']') - scope);
  return peer;
}

BegunStreamsReader BegunStreamsReader::OfNewestServer() {
  int64_t newest = 0;
  bool last_page = false;
  while (!last_page) {
    const std::string answer = Take(grpc_channelz_get_servers(newest + 1));
    absl::string_view json = answer;
    last_page = IsLastPage(json) || json.empty();
    int64_t server = 0;
    while (TakeNumber("serverId", &json, &server)) newest = std::max(newest, server);
  }
  return BegunStreamsReader(newest);
}

std::vector<BegunStreams> BegunStreamsReader::Read() {
  std::vector<BegunStreams> begun;
  const std::string server = Take(grpc_channelz_get_server(server_));
  absl::string_view server_json = server;
  int64_t calls = 0;
  if (!TakeNumber("callsStarted", &server_json, &calls) || calls == calls_) return begun;
  calls_ = calls;
  int64_t socket = 0;
  bool last_page = false;
  while (!last_page) {
    const std::string answer = Take(grpc_channelz_get_server_sockets(server_, socket + 1, 0));
    absl::string_view json = answer;
    last_page = IsLastPage(json) || json.empty();
    // {"name":"chttp2 ipv4:127.0.0.1:41234","socketId":"3"}
    absl::string_view name;
    while (TakeField("name", &json, &name) && TakeNumber("socketId", &json, &socket)) {
      const int64_t count = StreamsOfSocket(socket);
      absl::ConsumePrefix(&name, "chttp2 ");
      if (count > 0) begun.push_back({PeerOfUri(name), count});
    }
  }
  return begun;
}

}  // namespace ding
