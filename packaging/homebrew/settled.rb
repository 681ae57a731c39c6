class Settled < Formula
  desc "Wait for what was deployed to Kubernetes, and explain why it is not ready"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@BASE_URL@/settled-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@DARWIN_ARM64@"
    end
    on_intel do
      url "@BASE_URL@/settled-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@DARWIN_AMD64@"
    end
  end

  on_linux do
    on_arm do
      url "@BASE_URL@/settled-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@LINUX_ARM64@"
    end
    on_intel do
      url "@BASE_URL@/settled-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@LINUX_AMD64@"
    end
  end

  def install
    bin.install "settled"
    bin.install_symlink "settled" => "kubectl-settled"
    bin.install_symlink "settled" => "kubectl_complete-settled"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/settled.bash" => "settled"
    zsh_completion.install "completions/settled.zsh" => "_settled"
    fish_completion.install "completions/settled.fish"
  end

  test do
    (testpath/"object.yaml").write <<~YAML
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: web}
    YAML
    assert_match "Current", shell_output("#{bin}/settled status -f #{testpath}/object.yaml")
  end
end
