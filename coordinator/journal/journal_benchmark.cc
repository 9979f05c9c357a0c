// The cost of the coordinator's journal: an append precedes each acknowledgement.
//
//   AppendToFile/items, AppendToFileFloor/items      a push of that many items; write(2) of its
//                                                    bytes
//   AppendGroupToFile/pushes                         that many pushes of 32 items, and the state of
//                                                    the run, as a run appends them; the chunks
//                                                    leave their buffer after a while
//   AppendToRedis/items, AppendToRedisFloor/items    the same in a Redis of this machine; a bare
//                                                    SET
//   RecoverFile/rows, RecoverRedis/rows              opening a journal of that many rows, in pushes
//                                                    of 32, and reading the run and its rows:
//                                                    rows/s
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/redis/redis_log.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"

namespace ding {
namespace {

// A journal that gets larger is begun anew, so that neither memory nor the disk limits what is
// measured.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr int64_t kItems = 32;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

JournalRecord Push(int64_t chunk, int64_t items) {
  JournalRecord record;
  record.mutable_push()->set_buffer_id("buffer_0");
  record.mutable_push()->set_items(EncodedBatch(TestItemsOfChunk(chunk, items).rows).ToString());
  record.mutable_push()->add_chunk(chunk);
  record.mutable_push()->set_envstep(chunk * items);
  return record;
}

class Folder {
 public:
  Folder() {
    std::string path = absl::StrCat(P_tmpdir, "/journal_benchmark_XXXXXX");
    path_ = mkdtemp(path.data());
  }
  ~Folder() { RemoveRecursively(path_).IgnoreError(); }
  std::string journal() const { return JoinPath(path_, "journal"); }

 private:
  std::string path_;
};

// A Redis and a log in it.
class Redis {
 public:
  Redis() : server_(RedisServer::Start({}).value()) {}
  int port() const { return server_->port(); }
  std::unique_ptr<Journal> Open() {
    RedisServerAddress server;
    server.host = "127.0.0.1";
    server.port = server_->port();
    return Journal::Open(RedisLog::Open(server, "run", server_->Url("run"), {"run-1"}).value())
        .value();
  }
  std::unique_ptr<Journal> NewJournal() {
    DING_CHECK(server_->Command({"FLUSHALL"}).ok());
    return Open();
  }

 private:
  const std::unique_ptr<RedisServer> server_;
};

using JournalMaker = std::function<std::unique_ptr<Journal>()>;

// Each push is removed after a while, and a state is written from time to time, as in a run.
void Append(benchmark::State& state, const JournalMaker& make) {
  constexpr int64_t kStatePeriod = 100;
  JournalRecord push = Push(1, state.range(0));
  JournalRecord run, removed;
  run.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
  const std::unique_ptr<Journal> journal = make();
  int64_t pushes = 0;
  for (auto _ : state) {
    push.mutable_push()->set_chunk(0, ++pushes);
    removed.mutable_removed()->add_chunk(pushes);
    Check(journal->Append({push}));
    if (pushes % kStatePeriod != 0) continue;
    Check(journal->Append({removed, run}));
    removed.mutable_removed()->clear_chunk();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void AppendGroup(benchmark::State& state, const JournalMaker& make) {
  constexpr int64_t kChunks = 3000;  // in the buffer
  const std::unique_ptr<Journal> journal = make();
  const JournalRecord push = Push(0, kItems);
  JournalRecord run;
  run.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
  run.mutable_state()->set_run(std::string(200, 'x'));
  int64_t chunk = 0;
  for (auto _ : state) {
    std::vector<JournalRecord> records;
    JournalRecord removed;
    for (int64_t i = 0; i < state.range(0); ++i) {
      records.push_back(push);
      records.back().mutable_push()->set_chunk(0, ++chunk);
      if (chunk > kChunks) removed.mutable_removed()->add_chunk(chunk - kChunks);
    }
    if (removed.has_removed()) records.push_back(removed);
    run.mutable_state()->set_envstep(chunk);
    records.push_back(run);
    Check(journal->Append(records));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

std::unique_ptr<Journal> OpenFileJournal(const Folder& folder) {
  return Journal::Open(SqliteLog::Open(folder.journal(), {"run-1"}).value()).value();
}

std::unique_ptr<Journal> NewFileJournal(const Folder& folder) {
  Check(RemoveRecursively(folder.journal()));
  return OpenFileJournal(folder);
}

void AppendToFile(benchmark::State& state) {
  const Folder folder;
  Append(state, [&folder] { return NewFileJournal(folder); });
}

void AppendGroupToFile(benchmark::State& state) {
  const Folder folder;
  AppendGroup(state, [&folder] { return NewFileJournal(folder); });
}

void AppendToFileFloor(benchmark::State& state) {
  const Folder folder;
  const std::string bytes = Push(1, state.range(0)).SerializeAsString();
  const int fd = open(folder.journal().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  int64_t size = 0;
  for (auto _ : state) {
    DING_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    size += static_cast<int64_t>(bytes.size());
    if (size > kMaxBytes) {
      state.PauseTiming();
      DING_CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
      size = 0;
      state.ResumeTiming();
    }
  }
  close(fd);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void AppendToRedis(benchmark::State& state) {
  Redis redis;
  Append(state, [&redis] { return redis.NewJournal(); });
}

int ConnectTo(int port) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int no_delay = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof(no_delay));
  DING_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  return fd;
}

void AppendToRedisFloor(benchmark::State& state) {
  const Redis redis;
  const int fd = ConnectTo(redis.port());
  const std::string bytes = Push(1, state.range(0)).SerializeAsString();
  const int64_t keys = kMaxBytes / static_cast<int64_t>(bytes.size());
  int64_t number = 0;
  std::string command;
  char reply[5];
  for (auto _ : state) {
    const std::string key = absl::StrCat("run/journal/", ++number % keys);
    command = absl::StrCat("*3\r\n$3\r\nSET\r\n$", key.size(), "\r\n", key, "\r\n$", bytes.size(),
                           "\r\n", bytes, "\r\n");
    DING_CHECK(send(fd, command.data(), command.size(), 0) == static_cast<ssize_t>(command.size()));
    DING_CHECK(recv(fd, reply, sizeof(reply), MSG_WAITALL) == sizeof(reply) && reply[0] == '+');
  }
  close(fd);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Recover(benchmark::State& state, const JournalMaker& make, const JournalMaker& open) {
  const int64_t pushes = state.range(0) / kItems;
  {
    const std::unique_ptr<Journal> journal = make();
    JournalRecord run;
    run.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
    Check(journal->Append({run}));
    for (int64_t chunk = 0; chunk < pushes; ++chunk) Check(journal->Append({Push(chunk, kItems)}));
  }
  for (auto _ : state) {
    const std::unique_ptr<Journal> journal = open();
    DING_CHECK(journal->ReadRun().value().has_value());
    Check(journal->ReadPushes(
        [](const PushRecord& push) { return DecodeBatch(push.items()).status(); }));
  }
  state.SetItemsProcessed(state.iterations() * pushes * kItems);
}

void RecoverFile(benchmark::State& state) {
  const Folder folder;
  Recover(
      state, [&folder] { return NewFileJournal(folder); },
      [&folder] { return OpenFileJournal(folder); });
}

void RecoverRedis(benchmark::State& state) {
  Redis redis;
  Recover(
      state, [&redis] { return redis.NewJournal(); }, [&redis] { return redis.Open(); });
}

BENCHMARK(AppendToFile)->Arg(kItems)->Arg(1000);
BENCHMARK(AppendGroupToFile)->Arg(1)->Arg(16);
BENCHMARK(AppendToFileFloor)->Arg(kItems)->Arg(1000);
BENCHMARK(AppendToRedis)->Arg(kItems)->Arg(1000)->UseRealTime();
BENCHMARK(AppendToRedisFloor)->Arg(kItems)->Arg(1000)->UseRealTime();
BENCHMARK(RecoverFile)->Arg(100000)->UseRealTime();
BENCHMARK(RecoverRedis)->Arg(100000)->UseRealTime();

}  // namespace
}  // namespace ding

BENCHMARK_MAIN();
