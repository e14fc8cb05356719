// SPDX-License-Identifier: Apache-2.0
// Cgroup names of pods and containers, for both drivers.
#include "policy/pod_cgroup.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

Pod of_class(QosClass qos) {
  Pod made = pod("p", {container("a")});
  made.uid = "1234-abcd";
  made.status_qos = qos;
  made.containers[0].id = "c0ffee";
  return made;
}

CgroupNaming systemd(const std::string& root = "/") {
  return {.driver = CgroupDriver::systemd, .root = root, .scope_prefix = "cri-containerd-"};
}

CgroupNaming cgroupfs(const std::string& root = "/") {
  return {.driver = CgroupDriver::cgroupfs, .root = root, .scope_prefix = "cri-containerd-"};
}

TEST(PodCgroupTest, EachClassWithEitherDriver) {
  EXPECT_EQ(pod_cgroup(of_class(QosClass::guaranteed), cgroupfs()), "/kubepods/pod1234-abcd");
  EXPECT_EQ(pod_cgroup(of_class(QosClass::burstable), cgroupfs()),
            "/kubepods/burstable/pod1234-abcd");
  EXPECT_EQ(pod_cgroup(of_class(QosClass::best_effort), cgroupfs()),
            "/kubepods/besteffort/pod1234-abcd");
  EXPECT_EQ(pod_cgroup(of_class(QosClass::guaranteed), systemd()),
            "/kubepods.slice/kubepods-pod1234_abcd.slice");
  EXPECT_EQ(pod_cgroup(of_class(QosClass::burstable), systemd()),
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice");
  EXPECT_EQ(pod_cgroup(of_class(QosClass::best_effort), systemd()),
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1234_abcd.slice");
}

TEST(PodCgroupTest, Containers) {
  const Pod made = of_class(QosClass::burstable);
  EXPECT_EQ(container_cgroup(made, made.containers[0], cgroupfs()),
            "/kubepods/burstable/pod1234-abcd/c0ffee");
  const std::string slice =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice";
  CgroupNaming naming = systemd();
  EXPECT_EQ(container_cgroup(made, made.containers[0], naming),
            slice + "/cri-containerd-c0ffee.scope");
  naming.scope_prefix = "crio-";
  EXPECT_EQ(container_cgroup(made, made.containers[0], naming), slice + "/crio-c0ffee.scope");
  EXPECT_EQ(container_cgroup(made, container("unknown"), naming), "");
}

TEST(PodCgroupTest, StaticPodsGoByTheirManifest) {
  Pod made = of_class(QosClass::guaranteed);
  made.origin = PodOrigin::mirror;
  made.config_hash = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(pod_cgroup(made, cgroupfs()), "/kubepods/pod0123456789abcdef0123456789abcdef");
}

TEST(PodCgroupTest, TheRootIsExpanded) {
  EXPECT_EQ(pods_cgroup(cgroupfs("/")), "/kubepods");
  EXPECT_EQ(pods_cgroup(cgroupfs("")), "/kubepods");
  EXPECT_EQ(pods_cgroup(systemd("")), "/kubepods.slice");
  EXPECT_EQ(pods_cgroup(cgroupfs("/a/b-c/")), "/a/b-c/kubepods");
  EXPECT_EQ(pods_cgroup(systemd("/a/b-c/")), "/a.slice/a-b_c.slice/a-b_c-kubepods.slice");
  EXPECT_EQ(pods_cgroup(systemd("/a.slice/a-b_c.slice")),
            "/a.slice/a-b_c.slice/a-b_c-kubepods.slice");
  EXPECT_EQ(pods_cgroup(cgroupfs("/a.slice")), "/a.slice/kubepods");
}

// The class is computed if the status does not have it.
TEST(PodCgroupTest, TheClassMayHaveToBeComputed) {
  Pod made = pod("p", {container("a", memory("1Gi"))});
  made.uid = "u";
  EXPECT_EQ(pod_cgroup(made, cgroupfs()), "/kubepods/burstable/podu");
}

}  // namespace
}  // namespace forestall::policy
