// SPDX-License-Identifier: Apache-2.0
// The client against a real containerd with real pods. The test runtime of tests/clients cannot
// prove that containerd's answers mean what the client assumes.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "actuators/node_reclaim.h"
#include "clients/runtime.h"
#include "cri/containerd_run.h"
#include "support/temp_tree.h"

namespace forestall {
namespace {

using clients::ContainerRuntime;
using clients::ContainerUsage;
using clients::DeadRemoval;
using test::ContainerdRun;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kUid = "0f5e1c9a-6d1f-4a1e-9d53-0c3a3f9d2b11";
constexpr const char* kLiveUid = "0f5e1c9a-6d1f-4a1e-9d53-0c3a3f9d2b12";

class Containerd : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(test::missing_for_containerd(), "");
    if (::access("/etc/hosts", R_OK) != 0) {
      GTEST_SKIP()
          << "not applicable: containerd copies /etc/hosts, which a minimal chroot does not "
             "have; runs on any installed Debian, as in CI";
    }
  }

  // The images, once the CRI part of containerd has registered them.
  static void import_images(const ContainerdRun& containerd) {
    for (const char* name : {ContainerdRun::kSandboxImage, "localhost/app:1", "localhost/free:1"}) {
      containerd.import_image(name);
    }
  }
};

std::optional<ContainerUsage> only_usage(ContainerRuntime& runtime) {
  const auto stats = runtime.container_stats();
  if (!stats || stats->size() != 1) return std::nullopt;
  return stats->front();
}

TEST_F(Containerd, RunsItsCourse) {
  const ContainerdRun containerd;
  const test::TempTree pods({{std::string(kUid) + "/", ""}, {std::string(kLiveUid) + "/", ""}});
  clients::RuntimeOptions options = ContainerdRun::patient();
  options.pods_directory = pods.path();
  const auto runtime = std::move(clients::connect(containerd.endpoint(), options).value());

  const auto identity = runtime->identity();
  ASSERT_TRUE(identity) << identity.error().text();
  EXPECT_EQ(identity->name, "containerd");

  import_images(containerd);
  const std::string sandbox = containerd.run_pod(kUid);
  const std::string container = containerd.start_container(sandbox, kUid, "app", "localhost/app:1",
                                                           {"/pause", "/file", "1048576"});

  // ImageFsInfo: a directory whose filesystem can be measured, with its usage in time.
  ASSERT_TRUE(containerd.wait_until([&] {
    const auto found = runtime->filesystems();
    return found && found->imagefs.usage.used > Bytes{0} && found->imagefs.usage.inodes > 0;
  })) << containerd.log();
  const auto filesystems = runtime->filesystems();
  ASSERT_TRUE(filesystems);
  EXPECT_THAT(filesystems->imagefs.directory, HasSubstr(containerd.root()));
  struct statfs found {};
  EXPECT_EQ(statfs(filesystems->imagefs.directory.c_str(), &found), 0);
  EXPECT_EQ(filesystems->containerfs, filesystems->imagefs);

  // The file that it wrote is counted in its writable layer.
  ASSERT_TRUE(containerd.wait_until([&] {
    const auto usage = only_usage(*runtime);
    return usage && usage->writable_layer.used >= mib(1);
  })) << containerd.log();
  const auto usage = only_usage(*runtime);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->id, container);
  EXPECT_EQ(usage->pod_uid, kUid);
  EXPECT_EQ(usage->container, "app");
  EXPECT_GE(usage->writable_layer.inodes, 1);
  EXPECT_TRUE(usage->at);

  // Images in use stay; unused ones are removed.
  EXPECT_EQ(*runtime->remove_dead_containers(), DeadRemoval());
  auto images = runtime->remove_unused_images();
  ASSERT_TRUE(images) << images.error().text();
  EXPECT_THAT(images->failures.first, IsEmpty());
  EXPECT_EQ(images->images, 1U);
  EXPECT_EQ(images->in_use, 1U);
  EXPECT_EQ(images->pinned, 1U) << "the sandbox image, from containerd's own configuration";
  EXPECT_GT(images->freed, Bytes{0});
  EXPECT_TRUE(only_usage(*runtime)) << "it runs on";

  // A dead container and its sandbox stay until the pod is gone.
  ASSERT_NE(containerd.run_pod(kLiveUid), "");
  containerd.stop_container(container);
  EXPECT_EQ(*runtime->remove_dead_containers(), DeadRemoval());
  containerd.stop_pod(sandbox);
  EXPECT_EQ(*runtime->remove_dead_containers(), DeadRemoval());
  std::filesystem::remove(pods / kUid);
  EXPECT_EQ(*runtime->remove_dead_containers(), (DeadRemoval{1, 1, {}}));

  // No container uses the other image any more; sandboxes can still be made.
  images = runtime->remove_unused_images();
  ASSERT_TRUE(images) << images.error().text();
  EXPECT_EQ(images->images, 1U);
  EXPECT_EQ(images->in_use, 0U);
  EXPECT_EQ(images->pinned, 1U);
  EXPECT_NE(containerd.run_pod("0f5e1c9a-6d1f-4a1e-9d53-0c3a3f9d2b13"), "");
}

TEST_F(Containerd, NodeReclaimRemovesADeadPodAndItsImage) {
  const ContainerdRun containerd;
  import_images(containerd);
  const std::string sandbox = containerd.run_pod(kUid);
  const std::string container =
      containerd.start_container(sandbox, kUid, "app", "localhost/app:1", {"/pause"});
  containerd.stop_container(container);
  containerd.stop_pod(sandbox);

  ASSERT_NE(containerd.run_pod(kLiveUid), "");
  const test::TempTree pods({{std::string(kLiveUid) + "/", ""}});
  clients::RuntimeOptions options = ContainerdRun::patient();
  options.pods_directory = pods.path();
  auto reclaim = actuators::NodeReclaim::create(containerd.endpoint(), options);
  ASSERT_TRUE(reclaim) << reclaim.error().text();
  ASSERT_TRUE((*reclaim)->start({ReclaimStep::dead_containers, ReclaimStep::unused_images}));
  pollfd over{(*reclaim)->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&over, 1, 60'000), 1);
  const auto result = (*reclaim)->take();
  ASSERT_TRUE(result);
  EXPECT_THAT(result->failures, IsEmpty());
  EXPECT_EQ(result->dead, (DeadRemoval{1, 1, {}}));
  ASSERT_TRUE(result->images);
  EXPECT_EQ(result->images->images, 2U) << "its own, now unused, and the free one";
  EXPECT_EQ(result->images->pinned, 1U);
}

TEST_F(Containerd, StoppedDaemonCostsTheDeadlineAndNoShutdown) {
  const ContainerdRun containerd;
  ASSERT_EQ(kill(containerd.pid(), SIGSTOP), 0);
  clients::RuntimeOptions options;
  options.deadline = std::chrono::milliseconds(200);
  auto runtime = clients::connect(containerd.endpoint(), options);
  ASSERT_TRUE(runtime);
  EXPECT_EQ((*runtime)->identity().error().code, ETIMEDOUT);

  options.deadline = std::chrono::hours(1);
  auto reclaim = actuators::NodeReclaim::create(containerd.endpoint(), options);
  ASSERT_TRUE(reclaim);
  ASSERT_TRUE((*reclaim)->start({ReclaimStep::dead_containers}));
  reclaim->reset();  // it must return, or the test hangs
  ASSERT_EQ(kill(containerd.pid(), SIGCONT), 0);
  EXPECT_TRUE(containerd.client()->identity());
}

}  // namespace
}  // namespace forestall
