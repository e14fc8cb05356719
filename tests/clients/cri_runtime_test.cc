// SPDX-License-Identifier: Apache-2.0
// What the client reads from a runtime of the test.
#include <gmock/gmock.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <thread>

#include "base/unique_fd.h"
#include "clients/runtime.h"
#include "fake_runtime.h"

namespace forestall::clients {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeRuntime;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
namespace cri = test::cri;

cri::FilesystemUsage& fill(cri::FilesystemUsage& filesystem, const std::string& directory) {
  filesystem.mutable_fs_id()->set_mountpoint(directory);
  return filesystem;
}

cri::ContainerStats& add_stats(FakeRuntime& fake, const std::string& id, const std::string& pod,
                               const std::string& name, std::uint32_t attempt) {
  auto& attributes = *fake.stats.add_stats()->mutable_attributes();
  attributes.set_id(id);
  attributes.mutable_metadata()->set_attempt(attempt);
  (*attributes.mutable_labels())["io.kubernetes.pod.uid"] = pod;
  (*attributes.mutable_labels())["io.kubernetes.container.name"] = name;
  return *fake.stats.mutable_stats(fake.stats.stats_size() - 1);
}

TEST(CriEndpoint, SchemeOrAbsolutePath) {
  EXPECT_TRUE(connect("unix:///run/containerd/containerd.sock"));
  EXPECT_TRUE(connect("/run/crio/crio.sock"));
  for (const char* wrong :
       {"", "unix://", "unix://run/x", "run/x", "tcp://127.0.0.1:1", "npipe:x"}) {
    const auto made = connect(wrong);
    ASSERT_FALSE(made) << wrong;
    EXPECT_THAT(made.error().text(), HasSubstr("'" + std::string(wrong) + "'"));
  }
}

TEST(CriEndpoint, RuntimeThatIsNotThereShowsWithTheFirstCall) {
  const test::TempTree empty;
  auto runtime = connect("unix://" + empty / "cri.sock");
  ASSERT_TRUE(runtime);
  const auto answer = (*runtime)->identity();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ENOENT);
  EXPECT_THAT(answer.error().text(), HasSubstr("CRI Version: connect " + empty / "cri.sock"));
}

TEST(CriIdentity, IsReadFromTheRuntime) {
  const FakeRuntime fake;
  const auto identity = fake.client()->identity();
  ASSERT_TRUE(identity) << identity.error().text();
  EXPECT_EQ(*identity, (RuntimeIdentity{"fake", "v1.2.3"}));
}

TEST(CriIdentity, ReportsUnsupportedCalls) {
  FakeRuntime fake;
  fake.failures["Version"] = {grpc::StatusCode::UNIMPLEMENTED, "unknown service \"x\""};
  const auto identity = fake.client()->identity();
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ENOSYS);
  EXPECT_THAT(identity.error().text(), HasSubstr("UNIMPLEMENTED: unknown service \"x\""));
}

TEST(CriDeadline, AHangingRuntimeReceivesAndCostsTheDeadline) {
  FakeRuntime fake;
  fake.hanging.insert("Version");
  RuntimeOptions options = FakeRuntime::patient();
  options.deadline = milliseconds(100);
  const auto latest = std::chrono::system_clock::now() + seconds(20);
  const MonotonicTime began = SystemClock().now();
  const auto identity = fake.client(options)->identity();
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ETIMEDOUT);
  // Or earlier, by the runtime's clock.
  EXPECT_GE(SystemClock().now() - began, milliseconds(90));
  // Sent with the call, so the runtime gives up, too.
  EXPECT_LT(fake.last_deadline(), latest);
}

TEST(CriDeadline, CancelsAHangingCall) {
  FakeRuntime fake;
  fake.hanging.insert("Version");
  const UniqueFd cancel(::eventfd(0, EFD_CLOEXEC));
  RuntimeOptions options = FakeRuntime::patient();
  options.cancel_fd = cancel.get();
  std::thread other([&] {
    EXPECT_TRUE(fake.wait_hanging());
    ::eventfd_write(cancel.get(), 1);
  });
  const auto client = fake.client(options);
  const auto identity = client->identity();
  other.join();
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ECANCELED);
  EXPECT_EQ(client->filesystems().error().code, ECANCELED);
}

TEST(CriFilesystems, OfImagesAndOfContainers) {
  FakeRuntime fake;
  auto& images = fill(*fake.filesystems.add_image_filesystems(), "/images");
  images.mutable_used_bytes()->set_value(1000);
  images.mutable_inodes_used()->set_value(10);
  auto& containers = fill(*fake.filesystems.add_container_filesystems(), "/layers");
  containers.mutable_used_bytes()->set_value(0);
  fill(*fake.filesystems.add_image_filesystems(), "/second");
  const auto found = fake.client()->filesystems();
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->imagefs, (RuntimeFilesystem{"/images", {Bytes{1000}, 10}}));
  // Zero is zero, and what is not measured is absent.
  EXPECT_EQ(found->containerfs, (RuntimeFilesystem{"/layers", {Bytes{0}, std::nullopt}}));
}

TEST(CriFilesystems, ContainersAreOnTheImageFilesystemByDefault) {
  FakeRuntime fake;
  fill(*fake.filesystems.add_image_filesystems(), "/images").mutable_used_bytes()->set_value(7);
  const auto found = fake.client()->filesystems();
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->containerfs, found->imagefs);
  EXPECT_EQ(found->imagefs, (RuntimeFilesystem{"/images", {Bytes{7}, std::nullopt}}));
}

TEST(CriFilesystems, NoneIsAnError) {
  const FakeRuntime fake;
  const auto found = fake.client()->filesystems();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().text(), HasSubstr("no image filesystem"));
}

TEST(CriStats, ByPodAndContainer) {
  FakeRuntime fake;
  auto& layer = *add_stats(fake, "c1", "pod-1", "app", 0).mutable_writable_layer();
  layer.set_timestamp(1'700'000'000'000'000'000);
  layer.mutable_used_bytes()->set_value(4096);
  layer.mutable_inodes_used()->set_value(3);
  add_stats(fake, "c2", "pod-1", "sidecar", 0);
  fake.stats.add_stats()->mutable_attributes()->set_id("not of a pod");
  const auto stats = fake.client()->container_stats();
  ASSERT_TRUE(stats) << stats.error().text();
  ASSERT_EQ(stats->size(), 2U);
  EXPECT_EQ(stats->at(0),
            (ContainerUsage{"c1",
                            "pod-1",
                            "app",
                            {Bytes{4096}, 3},
                            std::chrono::sys_time<std::chrono::nanoseconds>(
                                std::chrono::nanoseconds(1'700'000'000'000'000'000))}));
  EXPECT_EQ(stats->at(1), (ContainerUsage{"c2", "pod-1", "sidecar", {}, {}}));
}

TEST(CriStats, LastAttemptOfARestartedContainer) {
  FakeRuntime fake;
  add_stats(fake, "b", "pod", "app", 1);
  add_stats(fake, "c", "pod", "app", 2);
  add_stats(fake, "a", "pod", "app", 0);
  add_stats(fake, "d", "other", "app", 0);
  const auto stats = fake.client()->container_stats();
  ASSERT_TRUE(stats) << stats.error().text();
  EXPECT_THAT(*stats,
              ElementsAre(Field(&ContainerUsage::id, "c"), Field(&ContainerUsage::id, "d")));
}

TEST(CriStats, NoneIsAnAnswer) {
  const FakeRuntime fake;
  const auto stats = fake.client()->container_stats();
  ASSERT_TRUE(stats) << stats.error().text();
  EXPECT_THAT(*stats, IsEmpty());
}

}  // namespace
}  // namespace forestall::clients
