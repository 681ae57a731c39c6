class Settled < Formula
  desc "Wait for what was deployed to Kubernetes, and explain why it is not ready"
  homepage "https://example.com/settled"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://example.com/settled/releases/download/v1.2.3/settled-1.2.3-aarch64-apple-darwin.tar.gz"
      sha256 "602526fe5d0720f8fb8f60272c924a754eb90c461381908e5d8a5f04f6e504c0"
    end
    on_intel do
      url "https://example.com/settled/releases/download/v1.2.3/settled-1.2.3-x86_64-apple-darwin.tar.gz"
      sha256 "838636fb51c7c295f53ac0becfa66f4e7726c388af3fc9397e57c97f5f97c840"
    end
  end

  on_linux do
    on_arm do
      url "https://example.com/settled/releases/download/v1.2.3/settled-1.2.3-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "86bf552cb29f61118330fb817bc3819ddbade898c26ec8c0a3c825f4bc5e2e27"
    end
    on_intel do
      url "https://example.com/settled/releases/download/v1.2.3/settled-1.2.3-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "1bb87e07be9e52fc0dca53a1c0718fac23e8b4202b9c346e12f075762507a544"
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
