// SPDX-License-Identifier: Apache-2.0
#include "sources/pod_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

constexpr const char* kUid = "0a6f9c2e-1b7d-4c58-9f20-3d1e5a7b9c00";
constexpr const char* kUnderscored = "0a6f9c2e_1b7d_4c58_9f20_3d1e5a7b9c00";
constexpr const char* kHash = "4f1d2c3b4a5968778695a4b3c2d1e0ff";

std::string show(const std::optional<PodPath>& pod) {
  if (!pod) return "none";
  constexpr const char* kClasses[] = {"guaranteed", "burstable", "besteffort"};
  return pod->uid + " " + kClasses[static_cast<int>(pod->qos)] +
         (pod->static_pod ? " static" : "") + " " + pod->cgroup;
}

TEST(ParsePodPath, AcceptsBothDriversAndRejectsSimilarPaths) {
  const std::string uid = kUid;
  const std::string slice = kUnderscored;
  const std::string hash = kHash;
  struct Row {
    std::string path;
    std::string expected;
  };
  const std::string systemd =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice";
  const Row rows[] = {
      {"/kubepods/pod" + uid, uid + " guaranteed /kubepods/pod" + uid},
      {"/kubepods/burstable/pod" + uid, uid + " burstable /kubepods/burstable/pod" + uid},
      {"/kubepods/besteffort/pod" + uid, uid + " besteffort /kubepods/besteffort/pod" + uid},
      {"/kubepods/burstable/pod" + uid + "/0123abc",
       uid + " burstable /kubepods/burstable/pod" + uid},
      {"/kubepods/burstable/pod" + hash, hash + " burstable static /kubepods/burstable/pod" + hash},
      {systemd, uid + " burstable " + systemd},
      {systemd + "/cri-containerd-ab.scope", uid + " burstable " + systemd},
      {"/kubepods.slice/kubepods-pod" + slice + ".slice",
       uid + " guaranteed /kubepods.slice/kubepods-pod" + slice + ".slice"},
      {"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
       "kubelet-kubepods-besteffort-pod" +
           slice + ".slice/crio-ab.scope/container",
       uid +
           " besteffort /kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
           "kubelet-kubepods-besteffort-pod" +
           slice + ".slice"},
      {"/kubepods/burstable/pod" + uid + "/ab/kubepods/pod" + hash,
       hash + " guaranteed static /kubepods/burstable/pod" + uid + "/ab/kubepods/pod" + hash},
      {"/custom/root/kubepods/pod" + uid, uid + " guaranteed /custom/root/kubepods/pod" + uid},
      {"/machine.slice/libpod-" + uid + ".scope", "none"},
      {"/user/podman", "none"},
      {"/burstable/pod" + uid, "none"},
      {"/pod" + uid, "none"},
      {"/kubepods/pod", "none"},
      {"/kubepods/pods", "s guaranteed /kubepods/pods"},
      {"/kubepods/burstable", "none"},
      {"/kubepods", "none"},
      {"/kubepods/pod" + std::string(65, 'a'), "none"},
      {"/kubepods/pod..", "none"},
      {"/", "none"},
      {"", "none"},
      {"kubepods/pod" + uid, "none"},
  };
  for (const auto& row : rows) EXPECT_EQ(show(parse_pod_path(row.path)), row.expected) << row.path;
}

class PodTree : public ::testing::Test {
 protected:
  kernel::CgroupTree tree() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    EXPECT_TRUE(tree) << tree.error().text();
    return std::move(tree).value();
  }
  test::TempTree files_{{"cgroup.controllers", "memory\n"}};
};

std::optional<std::string> pods_cgroup(const kernel::CgroupTree& tree, std::string_view root) {
  const auto found = find_pods_cgroup(tree, root);
  EXPECT_TRUE(found) << found.error().text();
  return *found;
}

TEST_F(PodTree, CgroupfsPodsOfAllClasses) {
  files_.write("kubepods/poda/c1/", "");
  files_.write("kubepods/burstable/podb/", "");
  files_.write("kubepods/besteffort/podc/", "");
  files_.write("kubepods/besteffort/notapod/", "");
  const auto host = tree();
  EXPECT_EQ(pods_cgroup(host, "/"), "/kubepods");
  std::vector<PodPath> pods;
  ASSERT_TRUE(list_pods(host, "/kubepods", pods));
  EXPECT_THAT(pods, ElementsAre(Field(&PodPath::cgroup, "/kubepods/besteffort/podc"),
                                Field(&PodPath::cgroup, "/kubepods/burstable/podb"),
                                Field(&PodPath::cgroup, "/kubepods/poda")));
  EXPECT_EQ(pods[0].qos, QosClass::best_effort);
  EXPECT_EQ(pods[1].qos, QosClass::burstable);
  EXPECT_EQ(pods[2].qos, QosClass::guaranteed);
}

TEST_F(PodTree, SystemdPodsBelowARootOfTheirOwn) {
  files_.write(
      "a.slice/a-b_c.slice/a-b_c-kubepods.slice/a-b_c-kubepods-burstable.slice/"
      "a-b_c-kubepods-burstable-pod1_2.slice/",
      "");
  const auto host = tree();
  const auto path = pods_cgroup(host, "/a/b-c/");
  ASSERT_TRUE(path);
  EXPECT_EQ(*path, "/a.slice/a-b_c.slice/a-b_c-kubepods.slice");
  EXPECT_EQ(pods_cgroup(host, "/a.slice/a-b_c.slice"), *path);
  std::vector<PodPath> pods;
  ASSERT_TRUE(list_pods(host, *path, pods));
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(pods.front().uid, "1-2");
  // The path alone gives the same result as the walk.
  EXPECT_EQ(parse_pod_path(pods.front().cgroup), pods.front());
}

TEST_F(PodTree, OfTwoDriversTheOneWithPodsCounts) {
  files_.write("kubepods/burstable/", "");
  files_.write("kubepods.slice/kubepods-pod1.slice/", "");
  EXPECT_EQ(pods_cgroup(tree(), "/"), "/kubepods.slice");
  EXPECT_EQ(pods_cgroup(tree(), "/elsewhere"), std::nullopt);
}

}  // namespace
}  // namespace forestall::sources
