// SPDX-License-Identifier: Apache-2.0
#include "cluster/object_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "descheduler/cluster_snapshot.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

using kubernetes::ChangeType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string stored_pod(const std::string& name, const std::string& node,
                       const std::string& more = "") {
  return fmt::format(
      R"({{"metadata":{{"name":"{}","namespace":"shop","uid":"uid-{}","labels":{{"app":"web"}},)"
      R"("ownerReferences":[{{"kind":"ReplicaSet","name":"r","uid":"r"}}]{}}},)"
      R"("spec":{{"nodeName":"{}","nodeSelector":{{"disk":"ssd"}},"containers":[{{"image":"i",)"
      R"("resources":{{"requests":{{"cpu":"100m"}}}}}}]}},"status":{{"phase":"Running"}}}})",
      name, name, more, node);
}

class ObjectStoreTest : public ::testing::Test {
 protected:
  Result<void> list(const std::vector<std::string>& objects) {
    store_.list_begins();
    for (const std::string& each : objects) {
      const auto document = TRY(text::JsonDocument::parse(each));
      TRY(store_.listed(document.root()));
    }
    store_.list_ends();
    return {};
  }
  Result<void> change(ChangeType type, const std::string& object) {
    const auto document = TRY(text::JsonDocument::parse(object));
    return store_.changed(type, document.root());
  }
  // "NAME@NODE" of all pods.
  [[nodiscard]] std::vector<std::string> pods() const {
    rebalance::Snapshot snapshot;
    store_.add_to(snapshot);
    rebalance::sort(snapshot);
    std::vector<std::string> all;
    for (const rebalance::ClusterPod& each : snapshot.pods) {
      all.push_back(fmt::format("{}@{}", each.name, each.node));
    }
    return all;
  }

  static constexpr std::size_t kBytesMax = std::size_t{64} << 20;
  ObjectStore store_{"Pod", kBytesMax};
};

TEST_F(ObjectStoreTest, FollowsTheChangesAfterAList) {
  ASSERT_TRUE(list({stored_pod("a", "n1"), stored_pod("b", "n1"), stored_pod("c", "n1")}));
  EXPECT_THAT(pods(), ElementsAre("a@n1", "b@n1", "c@n1"));
  ASSERT_TRUE(change(ChangeType::added, stored_pod("d", "n1")));
  ASSERT_TRUE(change(ChangeType::modified, stored_pod("b", "n2")));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("a", "n1")));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("unknown", "n1")));
  EXPECT_THAT(pods(), ElementsAre("b@n2", "c@n1", "d@n1"));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("d", "n1")));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("c", "n1")));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("b", "n1")));
  EXPECT_EQ(store_.size(), 0U);
  ASSERT_TRUE(change(ChangeType::added, stored_pod("a", "n3")));
  EXPECT_THAT(pods(), ElementsAre("a@n3"));
}

TEST_F(ObjectStoreTest, KeepsTheLastCompleteListUntilTheNextIsComplete) {
  ASSERT_TRUE(list({stored_pod("a", "n1")}));
  store_.list_begins();
  const auto document = text::JsonDocument::parse(stored_pod("b", "n1")).value();
  ASSERT_TRUE(store_.listed(document.root()));
  EXPECT_THAT(pods(), ElementsAre("a@n1"));
  store_.list_ends();
  EXPECT_THAT(pods(), ElementsAre("b@n1"));
}

// One parser reads both, so a plan in a cluster is that from files.
TEST_F(ObjectStoreTest, HasWhatTheSnapshotOfFilesHas) {
  const std::string pod = stored_pod("a", "n1");
  ASSERT_TRUE(list({pod}));
  descheduler::ClusterSnapshotReader reader;
  ASSERT_TRUE(reader.add(R"({"kind":"PodList","items":[)" + pod + "]}"));
  const rebalance::Snapshot files = reader.take(0);
  rebalance::Snapshot stored;
  store_.add_to(stored);
  ASSERT_EQ(stored.pods.size(), 1U);
  EXPECT_EQ(stored.pods[0].labels, files.pods[0].labels);
  EXPECT_EQ(stored.pods[0].request, files.pods[0].request);
  EXPECT_EQ(*stored.pods[0].placement, *files.pods[0].placement);
  EXPECT_EQ(stored.pods[0].owners[0].uid, files.pods[0].owners[0].uid);
  EXPECT_EQ(stored.pods[0].phase, files.pods[0].phase);
}

TEST_F(ObjectStoreTest, RefusesMoreThanItsBytes) {
  std::string labels;
  for (int i = 0; i < 10'000; ++i) labels += fmt::format(R"({}"l{}":"")", i > 0 ? "," : "", i);
  const std::string more = R"(,"labels":{)" + labels + "}";
  ObjectStore small("Pod", std::size_t{2} << 20);
  small.list_begins();
  Result<void> listed;
  int count = 0;
  for (; listed && count < 100; ++count) {
    const std::string pod = stored_pod(std::to_string(count), "n1", more);
    const auto document = text::JsonDocument::parse(pod).value();
    listed = small.listed(document.root());
  }
  EXPECT_LT(count, 10) << "each label takes 32 bytes in each pod";
  EXPECT_THAT(listed.error().text(), HasSubstr("more than 2097152 bytes"));
}

// Texts of pods that are gone stay until the next list.
TEST_F(ObjectStoreTest, NeedsAListWhenMostTextsAreUnused) {
  ASSERT_TRUE(list({stored_pod("a", "n1")}));
  const std::string text(100'000, 'x');
  int changes = 0;
  for (; !store_.needs_list() && changes < 1'000; ++changes) {
    ASSERT_TRUE(change(ChangeType::modified, stored_pod("a", fmt::format("{}{}", changes, text))));
  }
  EXPECT_THAT(changes, ::testing::AllOf(::testing::Gt(100), ::testing::Lt(200))) << "16 MiB";
  ASSERT_TRUE(list({stored_pod("a", "n1")}));
  EXPECT_FALSE(store_.needs_list());
  EXPECT_LT(store_.bytes(), std::size_t{10'000});
}

// Else the watch would end in an error, again and again.
TEST_F(ObjectStoreTest, NeedsAListBeforeUnusedTextsFillIt) {
  const std::string text(std::size_t{1} << 20, 'x');
  const auto large = [&text](int number, const std::string& node) {
    return stored_pod(fmt::format("p{}", number), node + text);
  };
  std::vector<std::string> all;
  for (int i = 0; i < 50; ++i) all.push_back(large(i, fmt::format("n{}", i)));
  ASSERT_TRUE(list(all));
  int changes = 0;
  while (!store_.needs_list() && changes < 50) {
    ASSERT_TRUE(change(ChangeType::modified, large(changes, fmt::format("m{}", changes))));
    ++changes;
  }
  EXPECT_THAT(changes, ::testing::AllOf(::testing::Gt(4), ::testing::Lt(8))) << "56 of 64 MiB";
  EXPECT_GT(store_.bytes(), kBytesMax / 8 * 7);
  ASSERT_TRUE(list(all));
  EXPECT_FALSE(store_.needs_list());
}

TEST_F(ObjectStoreTest, HasALivePodUntilItTerminates) {
  ASSERT_TRUE(list({stored_pod("a", "n1"), stored_pod("b", "n1")}));
  EXPECT_TRUE(store_.has_live_pod("shop", "b", "uid-b"));
  EXPECT_FALSE(store_.has_live_pod("shop", "b", "uid-of-another"));
  EXPECT_FALSE(store_.has_live_pod("other", "b", "uid-b"));
  ASSERT_TRUE(change(ChangeType::modified,
                     stored_pod("b", "n1", R"(,"deletionTimestamp":"2026-01-01T00:00:00Z")")));
  EXPECT_FALSE(store_.has_live_pod("shop", "b", "uid-b"));
  ASSERT_TRUE(change(ChangeType::deleted, stored_pod("a", "n1")));
  EXPECT_FALSE(store_.has_live_pod("shop", "a", "uid-a"));
}

TEST_F(ObjectStoreTest, CountsNothingOfWhatIsGone) {
  ASSERT_TRUE(list({}));
  const std::size_t empty = store_.bytes();
  ASSERT_TRUE(change(ChangeType::added, stored_pod("a", "n1")));
  const std::size_t first = store_.bytes();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(change(ChangeType::modified, stored_pod("a", "n1")));
    ASSERT_TRUE(change(ChangeType::deleted, stored_pod("a", "n1")));
    ASSERT_TRUE(change(ChangeType::added, stored_pod("a", "n1")));
  }
  EXPECT_EQ(store_.bytes(), first);
  EXPECT_GT(first, empty + sizeof(rebalance::ClusterPod));
}

TEST_F(ObjectStoreTest, RefusesAnObjectThatCannotBeRead) {
  ASSERT_TRUE(list({stored_pod("a", "n1")}));
  EXPECT_FALSE(change(ChangeType::modified, R"({"metadata":{"name":7}})"));
  EXPECT_THAT(pods(), ElementsAre("a@n1"));
}

TEST(ObjectStoreKinds, StoresEachKindOfAPlan) {
  for (const char* const kind : {"Node", "Pod", "Namespace", "PodDisruptionBudget", "PriorityClass",
                                 "PersistentVolumeClaim", "PersistentVolume"}) {
    ObjectStore store(kind, std::size_t{1} << 20);
    store.list_begins();
    for (const char* const name : {"a", "b", "a"}) {
      const std::string text =
          fmt::format(R"({{"metadata":{{"name":"{}","namespace":"s"}}}})", name);
      const auto document = text::JsonDocument::parse(text).value();
      ASSERT_TRUE(store.listed(document.root())) << kind;
    }
    store.list_ends();
    EXPECT_EQ(store.size(), 2U) << kind;
    rebalance::Snapshot all;
    store.add_to(all);
    EXPECT_EQ(all.nodes.size() + all.pods.size() + all.namespaces.size() + all.budgets.size() +
                  all.priority_classes.size() + all.claims.size() + all.volumes.size(),
              2U)
        << kind;
  }
}

}  // namespace
}  // namespace forestall::cluster
