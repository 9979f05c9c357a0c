#include <memory>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

INSTANTIATE_TEST_SUITE_P(Linear, NetworkConformance,
                         testing::Values(NetworkCase{"linear",
                                                     [] {
                                                       return std::make_unique<LinearNetwork>(
                                                           *MakeSpec({Box("obs", {3})}),
                                                           *MakeSpec({Box("q", {4})}), 1);
                                                     }}),
                         NetworkCaseName);

}  // namespace
}  // namespace ding
