// The example in docs/reference/interaction.md.

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Puts a chunk into the store, and sends its key.
absl::Status Produce(Transport* transport) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store("mem:run7"));
  DING_ASSIGN_OR_RETURN(auto connection, transport->Connect("consumer", absl::Seconds(5)));
  DING_ASSIGN_OR_RETURN(const auto session, Session::Start(std::move(connection), {}));
  DING_RETURN_IF_ERROR(store->Put("data/1/1", {"a thousand ", "rows"}));
  DING_RETURN_IF_ERROR(session->Send("data/1/1", absl::Seconds(5)));
  session->Close("that was all");
  return absl::OkStatus();
}

// Reads the value of each key that arrives, until the producer closes the session.
absl::StatusOr<std::string> Consume(Listener* listener) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store("mem:run7"));
  DING_ASSIGN_OR_RETURN(auto connection, listener->Accept(absl::Seconds(5)));
  DING_ASSIGN_OR_RETURN(const auto session, Session::Start(std::move(connection), {}));
  std::string chunk;
  while (true) {
    const absl::StatusOr<std::string> key = session->Receive(absl::Seconds(5));
    if (absl::IsAborted(key.status())) return chunk;  // closed by the producer
    if (!key.ok()) return key.status();
    DING_RETURN_IF_ERROR(store->Get(*key, &chunk));
  }
}

TEST(InteractionExample, AStoredValueIsFoundByItsKey) {
  const std::unique_ptr<Store> keep = create_store("mem:run7").value();
  InProcessTransport transport;
  const std::unique_ptr<Listener> listener = transport.Listen("consumer").value();
  absl::Status produced;
  std::thread producer([&] { produced = Produce(&transport); });
  const absl::StatusOr<std::string> chunk = Consume(listener.get());
  producer.join();
  EXPECT_THAT(produced, IsOk());
  ASSERT_THAT(chunk.status(), IsOk());
  EXPECT_EQ(*chunk, "a thousand rows");
}

}  // namespace
}  // namespace ding
