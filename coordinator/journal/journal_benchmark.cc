// The cost of the coordinator's journal: an append precedes each acknowledgement.
//
//   AppendToFile/items, AppendToFileFloor/items      a push of that many items; write(2) of its bytes
//   AppendToRedis/items, AppendToRedisFloor/items    the same in a Redis of this machine; a bare SET
//   CompactFile/rows, CompactRedis/rows              a journal of that many rows, in pushes of 32, of
//                                                    which half are removed: rows/s
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

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/coordinator/journal/file_journal.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/store_journal.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/replay_buffer/testing/test_items.h"

namespace ding {
namespace {

// A journal that gets larger is begun anew, so that neither memory nor the disk limits what is measured.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr int64_t kItems = 32;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

JournalRecord Push(int64_t chunk, int64_t items) {
  JournalRecord record;
  record.mutable_push()->set_buffer_id("buffer_0");
  record.mutable_push()->set_items(EncodedBatch(TestItemsOfChunk(chunk, items).rows).ToString());
  record.mutable_push()->add_chunk(chunk);
  record.mutable_push()->set_rows_total(chunk * items);
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

// A Redis and a store in it.
class Redis {
 public:
  Redis() : server_(RedisServer::Start({}).value()) {
    RedisStore::Options options;
    options.server.host = "127.0.0.1";
    options.server.port = server_->port();
    options.prefix = "run";
    store_ = RedisStore::Create(options).value();
  }
  int port() const { return server_->port(); }
  std::unique_ptr<Journal> NewJournal() {
    Check(store_->Clear());
    StoreJournal::Options options;
    options.store = store_.get();
    return StoreJournal::Open(options).value();
  }

 private:
  const std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisStore> store_;
};

using JournalMaker = std::function<std::unique_ptr<Journal>()>;

void Append(benchmark::State& state, const JournalMaker& make) {
  const JournalRecord push = Push(1, state.range(0));
  std::unique_ptr<Journal> journal = make();
  for (auto _ : state) {
    Check(journal->Append({push}));
    if (journal->size_bytes() > kMaxBytes) {
      state.PauseTiming();
      journal = make();
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

std::unique_ptr<Journal> NewFileJournal(const Folder& folder) {
  Check(RemoveRecursively(folder.journal()));
  return FileJournal::Open({folder.journal()}).value();
}

void AppendToFile(benchmark::State& state) {
  const Folder folder;
  Append(state, [&folder] { return NewFileJournal(folder); });
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

void Compact(benchmark::State& state, const JournalMaker& make) {
  const int64_t pushes = state.range(0) / kItems;
  for (auto _ : state) {
    state.PauseTiming();
    const std::unique_ptr<Journal> journal = make();
    JournalRecord removed;
    for (int64_t chunk = 0; chunk < pushes; ++chunk) {
      Check(journal->Append({Push(chunk, kItems)}));
      if (chunk % 2 == 0) removed.mutable_removed()->add_chunk(chunk);
    }
    Check(journal->Append({removed}));
    state.ResumeTiming();
    Check(journal->BeginCompaction([](const std::string&) { return true; }));
    Check(journal->FinishCompaction({}));
    journal->DropReplaced();
  }
  state.SetItemsProcessed(state.iterations() * pushes * kItems);
}

void CompactFile(benchmark::State& state) {
  const Folder folder;
  Compact(state, [&folder] { return NewFileJournal(folder); });
}

void CompactRedis(benchmark::State& state) {
  Redis redis;
  Compact(state, [&redis] { return redis.NewJournal(); });
}

BENCHMARK(AppendToFile)->Arg(kItems)->Arg(1000);
BENCHMARK(AppendToFileFloor)->Arg(kItems)->Arg(1000);
BENCHMARK(AppendToRedis)->Arg(kItems)->Arg(1000)->UseRealTime();
BENCHMARK(AppendToRedisFloor)->Arg(kItems)->Arg(1000)->UseRealTime();
BENCHMARK(CompactFile)->Arg(100000)->UseRealTime();
BENCHMARK(CompactRedis)->Arg(100000)->UseRealTime();

}  // namespace
}  // namespace ding

BENCHMARK_MAIN();
