// SPDX-License-Identifier: Apache-2.0
// Requests and limits of a pod, from the declarations of its parts.
#include "policy/pod_requests.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "policy/quantity_sum.h"
#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

std::string text(const std::optional<Quantity>& amount) {
  return amount ? amount->text() : "none";
}

std::string memory_request(const Pod& pod) {
  return text(pod_requests(pod).memory);
}

struct Case {
  std::string name;
  std::vector<PodContainer> containers;
  std::vector<PodContainer> init_containers;
  std::string request;
};

TEST(PodRequestsTest, AggregationOverContainers) {
  const std::vector<Case> cases{
      {"nothing declared is none", {container("a")}, {container("i")}, "none"},
      {"no containers at all", {}, {}, "none"},
      {"a declared zero is zero", {container("a", memory("0"))}, {}, "0"},
      {"regular containers add up",
       {container("a", memory("1Gi")), container("b", memory("512Mi"))},
       {},
       "1536Mi"},
      {"a container without a request adds nothing",
       {container("a", memory("1Gi")), container("b")},
       {},
       "1Gi"},
      {"a larger init container counts alone",
       {container("a", memory("1Gi"))},
       {container("i", memory("3Gi")), container("j", memory("2Gi"))},
       "3Gi"},
      {"a smaller one does not",
       {container("a", memory("1Gi"))},
       {container("i", memory("1Mi"))},
       "1Gi"},
      {"only an init container", {container("a")}, {container("i", memory("1Mi"))}, "1Mi"},
      {"a sidecar adds to the regular ones",
       {container("a", memory("1Gi"))},
       {sidecar("s", memory("1Gi"))},
       "2Gi"},
      {"sidecars add to init containers after them",
       {container("a", memory("1Gi"))},
       {sidecar("s", memory("1Gi")), container("i", memory("3Gi"))},
       "4Gi"},
      {"and not to those before them",
       {container("a", memory("1Gi"))},
       {container("i", memory("3Gi")), sidecar("s", memory("1Gi"))},
       "3Gi"},
      {"only sidecars so far count",
       {container("a", memory("1Gi"))},
       {sidecar("s", memory("1Gi")), container("i", memory("2Gi")), sidecar("t", memory("1Gi"))},
       "3Gi"},
      {"an init container without a request still runs beside sidecars",
       {container("a")},
       {sidecar("s", memory("1Gi")), container("i"), sidecar("t", memory("1Gi"))},
       "2Gi"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(memory_request(pod("p", one.containers, one.init_containers)), one.request)
        << one.name;
  }
}

TEST(PodRequestsTest, EachResourceByItself) {
  const Pod made =
      pod("p", {container("a", amounts("500m", "1Gi"))},
          {container("i", amounts("2", "", "1G")), container("j", amounts("", "2Gi"))});
  const ResourceList requests = pod_requests(made);
  EXPECT_EQ(text(requests.cpu), "2");
  EXPECT_EQ(text(requests.memory), "2Gi");
  EXPECT_EQ(text(requests.ephemeral_storage), "1G");
  EXPECT_EQ(pod_request(made, &ResourceList::cpu), requests.cpu);
}

TEST(PodRequestsTest, OverheadComesOnTopOfWhatIsNotZero) {
  const auto with_overhead = [](const std::string& request) {
    Pod made = pod("p", {container("a", memory(request))});
    made.overhead = amounts("250m", "100Mi");
    return made;
  };
  EXPECT_EQ(memory_request(with_overhead("1Gi")), "1124Mi");
  EXPECT_EQ(memory_request(with_overhead("0")), "0");
  EXPECT_EQ(memory_request(with_overhead("")), "none");
  EXPECT_EQ(text(pod_requests(with_overhead("1Gi")).cpu), "none");
}

TEST(PodRequestsTest, ThePodsOwnResourcesStandAlone) {
  Pod made =
      pod("p", {container("a", amounts("1", "3Gi", "1Gi"))}, {container("i", memory("9Gi"))});
  made.requests = amounts("", "2Gi", "7Gi");  // storage is not allowed here
  EXPECT_EQ(memory_request(made), "2Gi");
  EXPECT_EQ(text(pod_requests(made).cpu), "none");
  EXPECT_EQ(text(pod_requests(made).ephemeral_storage), "none");
  made.overhead = memory("1Gi");
  EXPECT_EQ(memory_request(made), "3Gi");

  made.requests.reset();
  made.limits = memory("4Gi");
  EXPECT_EQ(memory_request(made), "none") << "limits alone make it pod-level too";
  EXPECT_FALSE(has_pod_level_requests(made));
  EXPECT_TRUE(has_pod_level_resources(made));
}

// spec.resources without cpu and memory is no pod-level resource.
TEST(PodRequestsTest, EmptyPodResourcesAreNone) {
  Pod made = pod("p", {container("a", memory("3Gi"))});
  made.requests = ResourceList{};
  made.limits = storage("1Gi");
  EXPECT_FALSE(has_pod_level_resources(made));
  EXPECT_EQ(memory_request(made), "3Gi");
}

TEST(PodRequestsTest, LimitsAggregateLikewise) {
  Pod made = pod("p", {container("a", {}, storage("1Gi")), container("b")},
                 {sidecar("s", {}, storage("1Gi")), container("i", {}, storage("500Mi"))});
  EXPECT_EQ(text(pod_limits(made).ephemeral_storage), "2Gi");
  EXPECT_EQ(text(pod_limits(made).memory), "none");
  made.overhead = storage("1Gi");
  EXPECT_EQ(text(pod_limits(made).ephemeral_storage), "3Gi");
}

TEST(PodRequestsTest, ThePodsOwnLimitsReplaceThoseOfContainers) {
  Pod made = pod("p", {container("a", {}, amounts("1", "3Gi", "1Gi"))});
  made.limits = amounts("", "2Gi", "7Gi");  // storage is not allowed here
  EXPECT_EQ(text(pod_limits(made).memory), "2Gi");
  EXPECT_EQ(text(pod_limits(made).cpu), "1") << "where the pod has none, those of its containers";
  EXPECT_EQ(text(pod_limits(made).ephemeral_storage), "1Gi");
}

TEST(PodRequestsTest, SumsPrintLikeTheirFirstPart) {
  EXPECT_EQ(sum(q("1Gi"), q("1k")).format, QuantityFormat::binary_si);
  EXPECT_EQ(sum(q("0"), q("1Ki")).text(), "1Ki");
  EXPECT_EQ(sum(q("1500m"), q("1500m")).text(), "3");
}

TEST(PodRequestsTest, SumsSaturate) {
  const Quantity most{.nanos = std::numeric_limits<__int128>::max()};
  const Quantity least{.nanos = std::numeric_limits<__int128>::min()};
  EXPECT_EQ(sum(most, q("1")), most);
  EXPECT_EQ(sum(least, q("-1")), least);
}

}  // namespace
}  // namespace forestall::policy
